"""At which size a specimen is tried: by counted operations, not by the clock, so that a report is the same tomorrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradwright.checking.context import run_forward
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.costs import extrapolate
from gradwright.doctor.probe.shrink import elements, fresh, shrink
from gradwright.doctor.probe.tracing import trace

_SMALL, _SMALLER = 12, 6
# A value check calls the forward some hundred times, a trace once; an operation costs microseconds to dispatch.
_VALUE_OPERATIONS, _VALUE_ELEMENTS = 2_000, 1 << 17
_TRACE_OPERATIONS, _TRACE_ELEMENTS = 20_000, 1 << 22


@dataclass(frozen=True)
class Sizes:
    """``values``: what the gradient is checked on; ``traced``: what operations are counted on; ``smaller``: a still
    smaller neighbour, to extrapolate from, if ``traced`` is not the specimen itself."""

    values: tuple[Any, ...]
    traced: tuple[Any, ...]
    smaller: tuple[Any, ...] | None


def sizes(use: FunctionUse, kept: Kept, limits: Limits) -> Sizes:
    """The specimen itself where that is cheap; else a smaller neighbour, if the function takes it."""
    small, smaller = shrink(kept.args, _SMALL), shrink(kept.args, _SMALLER)
    whole = Sizes(kept.args, kept.args, None)
    if elements(small) == elements(kept.args):
        return whole

    def count() -> int:
        pairs = []
        for args in (smaller, small):
            given = fresh(args)
            found = trace(lambda given=given: run_forward(use.function, given, kept.wanted), seconds=2.0)  # type: ignore[misc]  # bound at once
            pairs.append((elements(args), found.operations))
        return extrapolate(pairs[0], pairs[1], elements(kept.args))

    counted = attempt(count, limits)
    if counted.value is None:
        return whole  # the shapes belong together: it is tried as it is, within its time
    cheap = counted.value <= _VALUE_OPERATIONS and elements(kept.args) <= _VALUE_ELEMENTS
    short = counted.value <= _TRACE_OPERATIONS and elements(kept.args) <= _TRACE_ELEMENTS
    return Sizes(kept.args if cheap else small, kept.args if short else small, None if short else smaller)
