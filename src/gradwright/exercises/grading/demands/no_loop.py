"""No Python loop: with more rows there are no more operations, and no more lines are run."""

from __future__ import annotations

from collections.abc import Callable

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.grading.watched import Seen, watched
from gradwright.exercises.outcome import NotYet

FEW, MANY = 4, 44


def no_loop(sized: Callable[[Draws, int], Case], over: str) -> Demand:
    """``sized(draws, n)``: a case with n of what must not be looped over, ``over``: what that is ("samples")."""

    def ask(tried: Tried) -> str:
        few, many = (_seen(tried, sized(tried.draws(), count)) for count in (FEW, MANY))
        for what, small, large in (("operations", few.count, many.count), ("lines", few.lines, many.lines)):
            # A loop takes one of each kind a round at least. What torch itself does otherwise for larger tensors,
            # work in blocks, and branches (`if mask.any()`), stay far below.
            if large - small >= (MANY - FEW) / 2:
                raise NotYet(
                    f"{tried.name} loops over the {over}: {small} {what} for {FEW}, {large} for {MANY}",
                    where=tried.where,
                    why="each round costs microseconds of Python and of torch's dispatch, however small the work",
                    do="one expression over whole tensors, by broadcasting and reductions, takes the place of the loop",
                )
        return f"{many.count} operations for {MANY} {over}, {few.count} for {FEW}"

    return Demand("no loop", ask)


def _seen(tried: Tried, case: Case) -> Seen:
    work = tried.once(case)
    seen: Seen = tried.guard(lambda: watched(work, tried.file), f"{tried.name} on {case.label}")
    return seen
