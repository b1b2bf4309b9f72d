"""Strongly connected components of a dependence graph, in the order in which they may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwright.doctor.rewrite.loops.dependence import Edge
from gradwright.doctor.rewrite.loops.ir import Statement


def components(statements: Sequence[Statement], edges: Sequence[Edge]) -> Iterator[tuple[Statement, ...]]:
    """Each component after all it depends on; where there is a choice, the one that comes first in the text."""
    after: dict[Statement, set[Statement]] = {one: set() for one in statements}
    for edge in edges:
        if edge.source in after and edge.sink in after:
            after[edge.source].add(edge.sink)
    reached = {one: _reached(one, after) for one in statements}
    group = {
        one: tuple(other for other in statements if other is one or (other in reached[one] and one in reached[other]))
        for one in statements
    }
    waiting = list(dict.fromkeys(group[one] for one in sorted(statements, key=lambda one: one.number)))
    while waiting:
        ready = next(
            one for one in waiting if not any(other is not one and set(one) & reached[other[0]] for other in waiting)
        )
        waiting.remove(ready)
        yield ready


def _reached(start: Statement, after: dict[Statement, set[Statement]]) -> set[Statement]:
    found: set[Statement] = set()
    stack = [start]
    while stack:
        for sink in after[stack.pop()] - found:
            found.add(sink)
            stack.append(sink)
    return found
