"""Is a kept session of this script, with these arguments, and of the files as they are?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import gradwright
from gradwright.doctor.mending.choosing import shown_path
from gradwright.doctor.render.remedies import command_line, typed
from gradwright.doctor.session.hunks import path_of
from gradwright.doctor.session.model import MISSING, Report, Source
from gradwright.doctor.session.reading import read_session
from gradwright.doctor.source.places import is_user_file
from gradwright.errors import SessionError, UsageError


def last_session(path: Path, argv: Sequence[str], here: Path, *, module: str = "") -> Report | str:
    """The session in ``path`` if it tells of ``argv`` (under ``-m``, of that ``module``) and of the files as they are
    now; why not, if it does not."""
    if not path.is_file():
        return "there is no session yet"
    try:
        report = read_session(path)
    except SessionError as error:
        return str(error)
    other = _of_another(report, argv, here, module)
    if other:
        return f"the last session is {other}"
    if report.environment.gradwright not in ("", gradwright.__version__):
        return f"the last session was made by Gradwright {report.environment.gradwright}"
    if any(item.what == MISSING for item in report.not_examined):
        return "the last session was cut short"
    if report.unwatched:
        return f"the last session is without {' and '.join(report.unwatched)}"
    changed = changed_files(report, here)
    return f"{changed[0]} was changed since the last session" if changed else report


def named_session(path: Path, argv: Sequence[str], here: Path, *, module: str = "") -> Report:
    """The session that was asked for. A file that was changed since gets no fix, the others do.

    Raises: UsageError, if it can't be read, is of something else, or every file with a fix in it was changed.
    """
    if not path.is_file():
        raise UsageError(f"there is no session {path}; gradwright diagnose --session {path} ... makes one")
    try:
        report = read_session(path)
    except SessionError as error:
        raise UsageError(str(error)) from None
    other = _of_another(report, argv, here, module)
    asked = command_line(["-m", module, *argv[1:]] if module else argv)
    if other:
        raise UsageError(f"the session {path} is {other}, not of {asked}")
    fixed = {path_of(finding.fix.diff) for finding in report.findings if finding.fix is not None}
    changed = changed_files(report, here, only=fixed)
    if changed and len(changed) == len(fixed):
        raise UsageError(
            f"the session {path} is older than {changed[0]}, which was changed since; "
            f"gradwright diagnose --session {command_line([str(path)])} {asked} makes a new one"
        )
    return report


def _of_another(report: Report, argv: Sequence[str], here: Path, module: str) -> str:
    """Of what else the session is; "" if it is of this script with these arguments."""
    theirs = report.script.argv
    if not theirs:
        return "of no script"
    base = Path(report.environment.cwd or here)
    same = os.path.realpath(base / theirs[0]) == os.path.realpath(here / argv[0])
    same = same and tuple(theirs[1:]) == tuple(argv[1:]) and report.script.module == module
    return "" if same else f"of {command_line(typed(report) if report.script.module else theirs)}"


def changed_files(report: Report, here: Path, only: set[str] | None = None) -> list[str]:
    """The user's own files (or ``only`` these) that are not what the session holds, as they are shown."""
    base = Path(report.environment.cwd or here)
    changed = []
    for source in report.sources:
        real = Path(os.path.realpath(base / source.path))
        if (source.path in only if only is not None else is_user_file(str(real))) and not _is_still(real, source):
            changed.append(shown_path(real, here))
    return changed


def _is_still(real: Path, source: Source) -> bool:
    try:
        return hashlib.sha256(real.read_bytes()).hexdigest() == source.sha256
    except OSError:
        return False
