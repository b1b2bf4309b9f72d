"""What the rules on costly patterns of a graph share: when one is worth a word, and its place."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.doctor.rules.element_loops import is_slow
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import CostlyGraph, LoopShape, LoopsTreated
from gradwright.doctor.session.place import Location

_SECONDS, _LOOKS = 1e-3, 2
_SHARE_OF_ROWS = 0.25
_OF_ROWS = ("entries", "cat")  # what a loop over rows has beside its rounds
_SHARE, _SHARE_OF_WAITING = 0.05, 0.01  # of the work of a step; of its time, in which it may wait for others


def worth_a_word(facts: Facts, pattern: str) -> Iterator[tuple[CostlyGraph, LoopsTreated]]:
    """Patterns that take a noticeable part of a step, outside of loops that are told as a whole.

    One per place, the dearest. Nothing before the loops have been treated, which is evidence, too.
    """
    treated = next(facts.all(LoopsTreated), None)
    if treated is None:
        return
    told: set[Location] = set()
    as_rows = [one.loop for one, _ in row_loops(facts) if one.loop is not None] if pattern in _OF_ROWS else []
    for cost in sorted(facts.of(CostlyGraph), key=lambda one: -one.seconds):
        if cost.pattern != pattern or cost.location is None or cost.location in told or cost.looks < _LOOKS:
            continue
        least = max(_SECONDS, _SHARE * cost.step_cpu_seconds, _SHARE_OF_WAITING * cost.step_seconds)
        if cost.seconds < least:
            continue
        if not any(within(cost.location, other) for other in (*treated.told, *as_rows)):
            told.add(cost.location)
            yield cost, treated


def row_loops(facts: Facts) -> Iterator[tuple[CostlyGraph, LoopsTreated]]:
    """Loops over rows, one finding each, that take a quarter of a step's work and more for nothing."""
    told: set[Location] = set()
    elements = [shape.location for shape in facts.all(LoopShape) if is_slow(shape)]  # told as GW301
    for cost, treated in worth_a_word(facts, "rows"):
        loop = cost.loop
        if loop is None or loop in told or cost.seconds < _SHARE_OF_ROWS * cost.step_cpu_seconds:
            continue
        if not any(within(other, loop) or within(loop, other) for other in elements):
            told.add(loop)
            yield cost, treated


def share_of_step(cost: CostlyGraph) -> str:
    return f"{min(1.0, cost.seconds / max(cost.step_cpu_seconds, 1e-9)) * 100:.0f} % of a step's work"


def within(inner: Location, outer: Location) -> bool:
    return inner.path == outer.path and outer.line <= inner.line <= (outer.end_line or outer.line)
