"""What a trial has shown: a proof, or the counterexample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from gradwright.doctor.rerun.trial.request import Outcome
from gradwright.doctor.session.model import Proof

TOLERANCE = 1e-3  # of losses, relative to the larger of the loss and their median: rounding grows from step to step


def judged(
    outcome: Outcome, losses: Sequence[float | None], call: int, path: str, *, opened: bool = False
) -> Proof | str:
    """``losses``: those of the unchanged script up to where it broke, in or before backward number ``call``.
    ``opened``: see ``Twin``; then the losses have to show that it was read as it is meant."""
    if outcome.differs:
        return outcome.differs
    if outcome.error:
        return outcome.error
    compared = unlike(losses, outcome.losses, call)
    if isinstance(compared, str):
        return compared
    worst, count = compared
    if opened and not count:
        return "it broke before there was a loss to compare"
    if outcome.faults:
        return f"its run could not be watched: {outcome.faults[0]}"
    if not any(at <= call for at in outcome.evaluations):
        return "the place was not reached before the script broke"
    if not outcome.compared[0] or (outcome.wants_gradient and not outcome.compared[1]):
        return "there was no finite value or gradient at the place that it could be compared with"
    elsewhere = _elsewhere(outcome, call, path)
    if elsewhere.startswith("!"):
        return elsewhere[1:]
    after = outcome.losses[call:]
    bad = next((at for at, loss in enumerate(after, call) if loss is not None and not math.isfinite(loss)), None)
    if bad is not None and not elsewhere:
        return f"the loss of backward {bad} is {outcome.losses[bad]}"
    if len(outcome.losses) <= call:
        return "the script ended before the step in which it broke"
    same = f"{_count(count, 'loss', 'losses')} until it broke as before" if count else "no loss until it broke"
    then = _afterwards(len(after), elsewhere)
    on = (
        f"{same}, worst difference {worst:.2g} (tolerance {TOLERANCE:g})",
        then,
        f"{outcome.compared[0]:,} finite values and {outcome.compared[1]:,} finite gradients at the place",
    )
    run = f"a run of the script ({same}, {then})"
    return Proof("verified", on, max(outcome.worst, worst), max(outcome.tolerance, TOLERANCE), 0, run=run)


def unlike(before: Sequence[float | None], after: Sequence[float | None], call: int) -> tuple[float, int] | str:
    """The largest relative difference of the losses of two runs up to where one of them broke, and how many they are;
    told if it is too large."""
    finite = [abs(value) for value in before[: call + 1] if value is not None and math.isfinite(value)]
    size = sorted(finite)[len(finite) // 2] if finite else 0.0
    worst, count = 0.0, 0
    for at, was in enumerate(before[: call + 1]):
        if was is None or not math.isfinite(was) or (at >= len(after) and at == call):
            continue
        value = after[at] if at < len(after) else None
        error = math.inf if value is None else abs(value - was) / max(abs(was), size, 1e-300)
        if not error <= TOLERANCE:
            return f"the loss of backward {at} was {was:.6g}, is {'none' if value is None else f'{value:.6g}'}"
        worst, count = max(worst, error), count + 1
    return worst, count


def _elsewhere(outcome: Outcome, call: int, path: str) -> str:
    """Where else it begins, "" if nowhere; with a ``!`` in front if that speaks against the change."""
    begin: dict[str, Any] | None = outcome.begin
    if begin is None:
        return ""
    at = begin["place"]
    value = "NaN" if begin["value"] == "nan" else begin["value"]
    name = f"{PurePath(at['path']).name}:{at['line']}"
    what = f"{value} begins in {begin['operation']} at {name}"
    first, last = outcome.lines
    if at["path"] == path and first <= at["line"] <= last:
        return f"!{what} again"
    if outcome.begin_call < call:
        return f"!{what}, earlier than before"
    if outcome.begin_call > call:
        return f"{what} in backward {outcome.begin_call}, a later step"
    independent = begin["phase"] == "backward" and not outcome.fed_it
    return f"{what} too" if independent else f"!{what} instead"


def _afterwards(steps: int, elsewhere: str) -> str:
    if elsewhere:
        return f"from there on finite at this place, but {elsewhere}"
    return f"{_count(steps, 'backward', 'backwards')} from there on finite"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
