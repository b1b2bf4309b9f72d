"""How fast is it, beside our solution and torch's own: told, and never a reason to fail."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from torch import Tensor

from gradwright.exercises.grading.learner import guarded, quiet
from gradwright.exercises.grading.tried import Tried, once
from gradwright.exercises.outcome import Speed
from gradwright.ground.threads import at_most

_ROUNDS = 10
_SECONDS = 0.5
_TIMES = 6.0  # of the limit of one call


def speed_of(tried: Tried) -> Speed:
    """One call and its backward, in turns with the others, one thread; the median."""
    case = tried.grading.large(tried.draws())
    subjects = [tried.subject, tried.solution, *filter(None, [tried.grading.builtin])]
    taken: list[list[float]] = [[] for _ in subjects]
    given = [f"{list(arg.shape)}" for arg in case.args() if isinstance(arg, Tensor)]
    during = f"{tried.name} on {case.label}"
    with at_most(1), tried.limits.during(during, _TIMES), quiet():
        end = time.perf_counter() + _SECONDS
        for number in range(_ROUNDS):
            for turn in range(len(subjects)):
                # Who comes first changes: what one has freed, the next one gets.
                who = (turn + number) % len(subjects)
                work = once(tried.grading, subjects[who], case, tried.seed)
                seconds = guarded(lambda work=work: _timed(work), during, tried.file)  # type: ignore[misc]
                if number:  # the first is a warm-up
                    taken[who].append(seconds)
            if number and time.perf_counter() > end:
                break
    medians = [statistics.median(times) for times in taken]
    return Speed(medians[0], medians[1], medians[2] if len(medians) > 2 else None, ", ".join(given) or case.label)


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
