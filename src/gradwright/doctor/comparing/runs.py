"""In what two runs were not alike: what is missing in one of them is no verdict on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gradwright.doctor.comparing.comparison import Turn, Unexamined
from gradwright.doctor.comparing.subjects import watched
from gradwright.doctor.render.remedies import command_line
from gradwright.doctor.render.wording import ending
from gradwright.doctor.session.model import MISSING, NotExamined, Report, Script

_PLACES = ("gradwright", "torch", "python", "device", "platform", "threads")
_BY_THE_CLOCK = re.compile(r"time limit|used up|took longer")
_CUT_SHORT = (MISSING, "the values of gradients", "part of what the script did")


def incomparable(old: Report, new: Report) -> str:
    """Why nothing can be said of the two, in a sentence: they are of two scripts, or nothing happened in the new one
    that the old one could be held against. "" where they can be compared."""
    if not _same_program(old, new):
        return f"they are of two scripts, {_named(old.script)} and {_named(new.script)}"
    if watched(old) and not watched(new):
        return f"nothing was watched in the new one: no custom Function was called and no gradient computed{_why(new)}"
    return ""


def _why(report: Report) -> str:
    return f" (the script {ending(report.script)})" if report.script.argv else ""


def cautions(old: Report, new: Report) -> Iterator[str]:
    """Each in a sentence."""
    first, last = old.script, new.script
    if first.argv[1:] != last.argv[1:]:
        yield f"the script had other arguments: {command_line(first.argv)}, then {command_line(last.argv)}"
    if first.rank != last.rank:
        yield f"they are of two ranks, {first.rank} and {last.rank}"
    for name in _PLACES:
        before, after = getattr(old.environment, name), getattr(new.environment, name)
        if before != after and before and after:
            yield f"another {name}: {before}, then {after}"
    if _end(first) != _end(last):
        yield f"the old script {ending(first)}, the new one {ending(last)}"
    if first.steps != last.steps:
        yield f"{first.steps:,} optimizer steps were watched, then {last.steps:,}"
    for which, report in (("old", old), ("new", new)):
        for item in report.not_examined:
            if item.what in _CUT_SHORT:
                yield f"the {which} session does not know {item.what}: {item.why}"


def _program(report: Report) -> str:
    """The script, as it lies below the directory that it ran in, or by its name where it does not."""
    if not report.script.argv:
        return ""
    path, cwd = report.script.argv[0], report.environment.cwd
    if os.path.isabs(path):  # noqa: PTH117 - of another machine, maybe
        below = os.path.relpath(path, cwd) if cwd else path
        return below if not below.startswith("..") else os.path.basename(path)  # noqa: PTH119
    return os.path.normpath(path)


def _same_program(old: Report, new: Report) -> bool:
    """The same file, below the directory it was started in or wherever it lies; or the same text under another name."""
    if _program(old) == _program(new):
        return True
    if not (old.script.argv and new.script.argv):
        return False
    paths = [os.path.normpath(os.path.join(one.environment.cwd, one.script.argv[0])) for one in (old, new)]  # noqa: PTH118 - of another machine, maybe
    texts = [one.source(_program(one)) for one in (old, new)]
    same_text = texts[0] is not None and texts[1] is not None and texts[0].text == texts[1].text
    return same_text or (paths[0] == paths[1] and os.path.isabs(paths[0]))  # noqa: PTH117 - the same


def _named(script: Script) -> str:
    return command_line(script.argv[:1]) or "no script"


def _end(script: Script) -> tuple[bool, str, int | None]:
    return script.stopped_early is not None, script.exception.type if script.exception else "", script.exit_code


def newly_unexamined(old: Report, new: Report) -> Iterator[Unexamined]:
    """What only the new session lists. It is worse where it is about something that the old session judged too, unless
    it was the clock that ended it: the next run on a machine with less to do may know it again. (Of the verdict on a
    gradient, which the doctor tries first, the clock is no excuse.)"""
    before = {_unnumbered(item.what) for item in old.not_examined}
    ours = {subject.name for subject in old.subjects} & {subject.name for subject in new.subjects}
    told = set()
    for item in new.not_examined:
        key = _unnumbered(item.what)
        if key in before or key in told or item.what in _CUT_SHORT:
            continue
        told.add(key)
        turn: Turn = "worse" if _is_of(item, ours) and not _BY_THE_CLOCK.search(item.why) else "neutral"
        yield Unexamined(turn, item.what, item.why)


def _is_of(item: NotExamined, names: set[str]) -> bool:
    """``second order of Scale``; not ``3 further calls of Scale``, nor its gradient, of which the verdict tells."""
    kind, of, name = item.what.rpartition(" of ")
    return bool(of) and name in names and kind not in ("gradient", "the gradient") and not re.search(r"\d", kind)


def _unnumbered(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "#", text)
