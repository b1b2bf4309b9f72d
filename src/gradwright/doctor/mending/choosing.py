"""Which fixes of a session are there, and which files may get them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradwright.doctor.mending.files import NotWritable, Text, read_text
from gradwright.doctor.session.hunks import DoesNotFit, Edit, applied, edits_of, path_of, unified
from gradwright.doctor.session.model import Finding, Fix, Report, Source
from gradwright.doctor.source.places import is_user_file


@dataclass(frozen=True, slots=True)
class Offer:
    """A fix of the session. ``left`` says why it is not among those to be made, and what to do; "" if it is.

    ``path`` is as it is shown, ``diff`` the lines of a unified diff of this fix alone.
    """

    finding: Finding
    fix: Fix
    path: str
    edits: tuple[Edit, ...] = ()
    diff: tuple[str, ...] = ()
    left: str = ""

    def leaving(self, why: str) -> Offer:
        return replace(self, left=why)


@dataclass(frozen=True, slots=True)
class Target:
    """A file that may get fixes: where it really lies, and what stands in it."""

    path: str
    real: Path
    data: bytes
    text: Text


def selected(report: Report, select: Sequence[str], ignore: Sequence[str]) -> list[Finding]:
    """The findings of these codes or their beginnings."""
    return [
        finding
        for finding in report.findings
        if (not select or finding.code.startswith(tuple(select))) and not finding.code.startswith(tuple(ignore))
    ]


def offers_in(
    findings: Sequence[Finding], report: Report, *, here: Path, outside: bool
) -> list[tuple[Offer, Target | None]]:
    """Every fix with the file it is for; where there is no such file, or it may not be touched, ``left`` says so."""
    found: list[tuple[Offer, Target | None]] = []
    targets: dict[str, Target | str] = {}
    for finding in findings:
        if finding.fix is None:
            continue
        named = path_of(finding.fix.diff) or finding.location.path
        if named not in targets:
            targets[named] = _target(named, report, here)
        target = targets[named]
        if isinstance(target, str):
            found.append((Offer(finding, finding.fix, named, left=target), None))
        else:
            found.append((_offer(finding, finding.fix, target, here, outside), target))
    return found


def _offer(finding: Finding, fix: Fix, target: Target, here: Path, outside: bool) -> Offer:
    offer = Offer(finding, fix, target.path)
    lines = target.text.plain
    try:
        edits = edits_of(fix.diff, lines)
    except DoesNotFit as error:
        return offer.leaving(f"the session's fix does not fit {target.path}: {error}; run gradwright diagnose again")
    offer = replace(offer, edits=edits, diff=tuple(unified(target.path, lines, applied(edits, lines))))
    if not outside and not target.real.is_relative_to(here.resolve()):
        return offer.leaving(f"{target.real} is not below the working directory {here}; --outside lets it be changed")
    return offer


def _target(named: str, report: Report, here: Path) -> Target | str:
    """The file, or why it gets no fix."""
    if named.startswith("<"):
        return f"{named} is no file: its code was made while the script ran, by exec or the like; change what makes it"
    real = Path(os.path.realpath(Path(report.environment.cwd or here) / named))
    shown = shown_path(real, here)
    if not is_user_file(str(real)):
        return f"{shown} belongs to an installed package, which is never changed from here"
    source = report.source(named)
    try:
        data = real.read_bytes()
        return Target(shown, real, data, read_text(data)) if _same(data, source) else _changed(shown)
    except NotWritable as error:
        return f"{shown} is left as it is: {error}"
    except OSError as error:
        return f"{shown} can't be read: {error.strerror or error}"


def _same(data: bytes, source: Source | None) -> bool:
    return source is not None and hashlib.sha256(data).hexdigest() == source.sha256


def _changed(shown: str) -> str:
    return f"{shown} is not the text that the fix was tried on: it was changed since; run gradwright diagnose again"


def shown_path(real: Path, here: Path) -> str:
    """Relative to the working directory where it lies below it."""
    base = here.resolve()
    return str(real.relative_to(base)) if real.is_relative_to(base) else str(real)
