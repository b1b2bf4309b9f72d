"""What became of each Function: is its gradient right, was it examined at all, how long does a call take?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradwright.doctor.comparing.comparison import GradientChange, TimeChange, Turn
from gradwright.doctor.comparing.subjects import Functions, still_stands
from gradwright.doctor.render.wording import gradient_cell, unexamined_reason
from gradwright.doctor.session.facts import DeclaredSurrogate, FunctionCalls, GradientVerdict
from gradwright.doctor.session.model import Report, Subject

NOT_EXAMINED = "not examined"
LEAST_SECONDS = 20e-6  # a difference of less is the clock's, or the machine's

_WORDS = {"right": "right", "wrong": "WRONG", "surrogate": "surrogate?", "unknown": "unknown"}
_JUDGED = ("right", "WRONG", "surrogate?", "declared surrogate")


def gradient_changes(old: Report, new: Report, pairs: Functions) -> Iterator[GradientChange]:
    for before, after in pairs:
        if before is not None and after is not None:
            yield from _judged_again(old, before, new, after)
        elif before is not None and _judged(old, before):
            yield _missing(old, before, new)
        elif after is not None and _judged(new, after):
            cell = gradient_cell(new, after)
            turn: Turn = "worse" if cell.word == "WRONG" else "neutral"
            yield GradientChange(turn, after.name, after.location.path, "", "not in the old session", str(cell))


def _judged_again(old: Report, before: Subject, new: Report, after: Subject) -> Iterator[GradientChange]:
    was, now = _verdicts(old, before), _verdicts(new, after)
    path = after.location.path
    if was and not now:
        turn: Turn = "worse" if any(word in _JUDGED for word in was.values()) else "neutral"
        why = unexamined_reason(new, after)
        yield GradientChange(turn, after.name, path, "", str(gradient_cell(old, before)), NOT_EXAMINED, why)
        return
    if now and not was:
        turn = "worse" if "WRONG" in now.values() else "better"
        yield GradientChange(turn, after.name, path, "", NOT_EXAMINED, str(gradient_cell(new, after)))
        return
    for name in dict.fromkeys((*was, *now)):
        first, last = was.get(name, NOT_EXAMINED), now.get(name, NOT_EXAMINED)
        if first != last:
            yield GradientChange(_turn(first, last), after.name, path, name, first, last, _why(new, after, name))


def _turn(before: str, after: str) -> Turn:
    """To be wrong is worse than anything; not to know what was known is worse than knowing it, right or wrong."""
    if after == "WRONG" or (before in _JUDGED and after == NOT_EXAMINED):
        return "worse"
    if before == "right" and after in ("unknown", "surrogate?"):
        return "worse"
    return "better" if after == "right" else "neutral"


def _verdicts(report: Report, subject: Subject) -> dict[str, str]:
    """A word for each input. One specimen that shows it wrong is enough; one that is unknown takes nothing back."""
    found: dict[str, set[str]] = defaultdict(set)
    for verdict in report.of(GradientVerdict, subject.id):
        found[verdict.input_name or f"input {verdict.input_index}"].add(verdict.verdict)
    if any(True for _ in report.of(DeclaredSurrogate, subject.id)):
        return dict.fromkeys(found or ("",), "declared surrogate")
    order = ("wrong", "right", "surrogate", "unknown")
    return {name: _WORDS[next(word for word in order if word in words)] for name, words in found.items()}


def _why(report: Report, subject: Subject, name: str) -> str:
    for verdict in report.of(GradientVerdict, subject.id):
        if name in (verdict.input_name, f"input {verdict.input_index}") and verdict.verdict != "right":
            return verdict.reason or verdict.cause
    return ""


def _judged(report: Report, subject: Subject) -> bool:
    return any(word in _JUDGED for word in _verdicts(report, subject).values())


def _missing(old: Report, before: Subject, new: Report) -> GradientChange:
    """A Function that the new session does not speak of: taken out of the text, or no longer met?"""
    still = still_stands(before, new)
    was = str(gradient_cell(old, before))
    if still is None:
        return GradientChange("neutral", before.name, before.location.path, "", was, "not in the new session")
    return GradientChange("worse", before.name, still, "", was, NOT_EXAMINED, f"it still stands in {still}")


def time_changes(old: Report, new: Report, factor: float, pairs: Functions) -> Iterator[TimeChange]:
    """Calls that take more than ``factor`` times as long as they did, or less than a ``factor``-th."""
    for before, after in pairs:
        if before is None or after is None:
            continue
        was, now = (next(r.of(FunctionCalls, s.id), None) for r, s in ((old, before), (new, after)))
        if was is None or now is None:
            continue
        same = _same_inputs(old, before, new, after)
        for phase in ("forward", "backward"):
            first, last = _per_call(was, phase), _per_call(now, phase)
            if not (first > 0 and last > 0 and abs(last - first) >= LEAST_SECONDS):
                continue
            ratio = last / first
            if not 1 / factor <= ratio <= factor:
                turn: Turn = "worse" if ratio > 1 else "better"
                yield TimeChange(turn, after.name, after.location.path, phase, first, last, ratio, same)


def _per_call(calls: FunctionCalls, phase: str) -> float:
    count, seconds = (
        (calls.forward_calls, calls.forward_seconds)
        if phase == "forward"
        else (calls.backward_calls, calls.backward_seconds)
    )
    return seconds / count if count > 0 else 0.0


def _same_inputs(old: Report, before: Subject, new: Report, after: Subject) -> bool | None:
    shapes = [
        {
            tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in specimen.tensors)
            for specimen in report.specimens
            if specimen.subject == subject.id
        }
        for report, subject in ((old, before), (new, after))
    ]
    return shapes[0] == shapes[1] if all(shapes) else None
