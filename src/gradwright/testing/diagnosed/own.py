"""Whose fault is it? A finding in a package that somebody else wrote is told, and turns nobody's session red."""

from __future__ import annotations

from pathlib import Path, PurePath

from gradwright.doctor.session.model import Finding, Report, Subject

_INSTALLED = ("site-packages", "dist-packages")


def makes_red(report: Report, root: Path) -> bool:
    """Whether an error or a warning is about the project's own code, whose root folder is ``root``.

    The project itself may be installed (tox does that): a package is its own if the root, or ``src`` in it, has a
    folder or module of that name.
    """
    about = {fact.id: fact.subject for fact in report.facts}

    def is_own(finding: Finding) -> bool:
        subjects = (report.subject(about.get(fact, "")) for fact in finding.evidence)
        known = [subject for subject in subjects if subject is not None]
        return not known or any(_is_own(subject, root) for subject in known)

    return any(finding.severity != "info" and is_own(finding) for finding in report.findings)


def _is_own(subject: Subject, root: Path) -> bool:
    if subject.origin != "library":
        return True
    parts = PurePath(subject.location.path).parts
    place = next((at for at, part in enumerate(parts) if part in _INSTALLED), None)
    if place is None or place + 1 >= len(parts):
        return False
    return any((folder / parts[place + 1]).exists() for folder in (root, root / "src"))
