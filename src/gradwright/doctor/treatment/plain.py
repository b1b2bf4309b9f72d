"""A Function that nobody needs: whether anybody else knows it, and the plain function in its place, proved."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gradwright.doctor.session.model import Report
from gradwright.doctor.source.places import home, is_user_file
from gradwright.doctor.treatment.cases import Case
from gradwright.doctor.treatment.patients import Patients
from gradwright.doctor.treatment.trials import Trials, Tried, declined

MOST_FILES = 4_000
LARGEST_FILE = 4 << 20
_PYTHON = (".py", ".pyi", ".pyw", ".ipynb")


def plain_function(case: Case, report: Report, patients: Patients, trials: Trials) -> Tried:
    """What became of the finding; the reason, where nothing was tried."""
    from gradwright.doctor.prove import prove_plain
    from gradwright.doctor.rewrite import propose_plain

    uses = (patients.functions.get(fact.subject) for fact in case.evidence)
    use = next((use for use in uses if use is not None and use.subject.origin != "library"), None)
    if use is None:
        return Tried()
    if first := _graver(case, report):
        return declined(f"{first} comes first; run the doctor again once it is mended", case.rewrite)
    proposals, why = propose_plain(case.finding, case.source.text)
    if known := proposals and _known_elsewhere(case.source.path, case.finding.subject):
        return declined(f"{known} may use {case.finding.subject} too", case.rewrite)
    if not proposals:
        return declined(why, case.rewrite)
    specimens = [(args, wanted) for args, wanted in patients.specimens(use.subject.id) if any(wanted)]
    namespace = getattr(use.function.forward, "__globals__", {})
    return trials.first_that_holds(
        proposals, lambda one, deadline: prove_plain(one, use.function, namespace, specimens, deadline=deadline)
    )


def _graver(case: Case, report: Report) -> str:
    """The code of another finding about the same Function, which is no mere information."""
    mine = case.finding
    for other in report.findings:
        same = other.subject == mine.subject and other.location.path == mine.location.path
        if same and other.severity != "info":
            return other.code
    return ""


def _known_elsewhere(path: str, name: str) -> str:
    """Another file of the user's that says both the module's name and the class's; "" if there is none."""
    if path.startswith("<"):
        return "another cell"
    own = (Path(home()) / path).resolve()
    module = own.parent.name if own.stem == "__init__" else own.stem
    both = [re.compile(rf"\b{re.escape(word)}\b".encode()) for word in (module, name)]
    for other in _files(own):
        if other is None:
            return "a file that was not looked at, among so many,"
        try:
            text = other.read_bytes() if other.stat().st_size < LARGEST_FILE else b""
        except OSError:
            continue
        if all(word.search(text) for word in both):
            return os.path.relpath(other, home())
    return ""


def _files(own: Path) -> Iterator[Path | None]:
    """The user's Python files and notebooks where the script was started, and around the file and its packages.

    None, and no more, where there are too many files or folders.
    """
    root = own.parent
    while (root / "__init__.py").exists() and root.parent != root:
        root = root.parent
    seen, folders = {own}, 0
    for top in dict.fromkeys((root, Path(home()).resolve())):
        for folder, inner, names in os.walk(top):
            folders += 1
            if len(seen) + folders + len(names) > MOST_FILES:
                yield None
                return
            inner[:] = [one for one in inner if not one.startswith(".") and one not in ("node_modules", "__pycache__")]
            for name in names:
                file = Path(folder) / name
                if name.endswith(_PYTHON) and file not in seen and is_user_file(str(file)):
                    seen.add(file)
                    yield file
