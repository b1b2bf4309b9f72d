"""What the rules on costly patterns of a graph share: when one is worth a word, and its place."""

from __future__ import annotations

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.facts import CostlyGraph, LoopsTreated
from gradwright.doctor.session.place import Location

_SECONDS, _LOOKS = 1e-3, 2
_SHARE, _SHARE_OF_WAITING = 0.05, 0.01  # of the work of a step; of its time, in which it may wait for others


def worth_a_word(facts: Facts, pattern: str) -> Iterator[tuple[CostlyGraph, LoopsTreated]]:
    """Patterns that take a noticeable part of a step, outside of loops that are told as a whole.

    One per place, the dearest. Nothing before the loops have been treated, which is evidence, too.
    """
    treated = next(facts.all(LoopsTreated), None)
    if treated is None:
        return
    told: set[Location] = set()
    for cost in sorted(facts.of(CostlyGraph), key=lambda one: -one.seconds):
        if cost.pattern != pattern or cost.location is None or cost.location in told or cost.looks < _LOOKS:
            continue
        least = max(_SECONDS, _SHARE * cost.step_cpu_seconds, _SHARE_OF_WAITING * cost.step_seconds)
        if cost.seconds < least:
            continue
        if not any(_within(cost.location, other) for other in treated.told):
            told.add(cost.location)
            yield cost, treated


def share_of_step(cost: CostlyGraph) -> str:
    return f"{min(1.0, cost.seconds / max(cost.step_cpu_seconds, 1e-9)) * 100:.0f} % of a step's work"


def milliseconds(cost: CostlyGraph) -> str:
    return f"{cost.seconds * 1e3:.2g} ms"


def _within(inner: Location, outer: Location) -> bool:
    return inner.path == outer.path and outer.line <= inner.line <= (outer.end_line or outer.line)
