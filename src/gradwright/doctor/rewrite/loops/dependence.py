"""Which statements of a nest need which others, and which loop carries that need.

Source: Allen and Kennedy, Optimizing Compilers for Modern Architectures, chapters 2 and 3 (levels of dependences,
privatisation); the test itself is in ``meetings`` and ``systems``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.rewrite.loops.expressions import (
    names_of,
)
from gradwright.doctor.rewrite.loops.ir import Loop, Nest, Place, Statement
from gradwright.doctor.rewrite.loops.meetings import Access, Meetings, Order
from gradwright.doctor.rewrite.loops.storage import Storage
from gradwright.doctor.source.seen import Seen
from gradwright.ground.syntax import dotted, shortened

# Accumulations whose order does not matter, among themselves.
_GROUPS = {"+": "sum", "-": "sum", "*": "product", "/": "product", "max": "max", "min": "min", "and": "and", "or": "or"}


@dataclass(frozen=True, eq=False)
class Edge:
    """``sink`` must come after ``source``: in a later round of ``carrier``, or in the same round (None).

    flow: it reads what was written; anti: it overwrites what was read; output: it overwrites what was written; order:
    a list grows in the order of the rounds. ``first`` and ``second``: the accesses that meet.
    """

    source: Statement
    sink: Statement
    carrier: Loop | None
    kind: Literal["flow", "anti", "output", "order"]
    first: Access
    second: Access


class Dependences:
    """The edges of a nest, and what else the scheduler asks. Cost: quadratic in statements that share a name."""

    def __init__(self, nest: Nest, seen: Seen) -> None:
        self.nest, self.seen = nest, seen
        self.storage = Storage(nest, seen)
        self.effects = self.storage.effects
        looped = max((statement.number for statement in nest.statements if statement.loops), default=0)
        written = {
            one.base.split(".", 1)[0]
            for statement, effects in self.effects.items()
            for one in effects.updates
            if statement.loops or statement.number < looped  # not what changes only when the loops are over
        }
        resized = {
            update.base
            for statement, effects in self.effects.items()
            for update in effects.updates
            if not update.indices or statement.kind == "append"
        }
        self.meetings = Meetings(frozenset(written), frozenset(resized), seen)
        self.homes = {name: self._home(name) for name in nest.temporaries}
        self.edges = [edge for edge in self._all() if not self.harmless(edge)]

    def _home(self, name: str) -> tuple[Loop, ...]:
        """The loops in whose every round a temporary is a value of its own."""
        around = [
            statement.loops
            for statement in self.nest.statements
            for update in self.effects[statement].updates
            if update.base == name and not update.indices and statement.kind == "assign"
        ]
        return common(around)

    def private(self, base: str) -> tuple[Loop, ...]:
        return self.homes.get(base.split(".", 1)[0], ())

    def _all(self) -> Iterator[Edge]:
        for source in self.nest.statements:
            for sink in self.nest.statements:
                for first, second, kind in self._pairs(source, sink):
                    yield from self._between(source, sink, first, second, kind)

    def _pairs(
        self, source: Statement, sink: Statement
    ) -> Iterator[tuple[Access, Access, Literal["flow", "anti", "output", "order"]]]:
        one, two = self.effects[source], self.effects[sink]
        for first in one.updates:
            for second in two.updates:
                if self._touch(source, first, sink, second):
                    both = source.kind == sink.kind == "append" and first.base == second.base
                    yield first, second, "order" if both else "output"
                    if sink.kind != "assign" and second is two.updates[0] and not both:
                        yield first, second, "flow"
            for second in two.reads:
                if self._touch(source, first, sink, second):
                    yield first, second, "flow"
        old = one.updates[:1] if source.kind != "assign" else ()  # the old value, in which another array may show
        for first in (*one.reads, *old):
            for second in two.updates:
                if first in old and first.base == second.base:
                    continue
                if self._touch(sink, second, source, first):
                    yield first, second, "anti"

    def _touch(self, writer: Statement, written: Access, other: Statement, access: Access) -> bool:
        """Whether a write may concern another access at all."""
        if written.base == access.base:
            return True
        inside = f"{written.base}.", f"{access.base}."
        if inside[1].startswith(inside[0]) or inside[0].startswith(inside[1]):
            return True  # self.weight and self.weight.data
        if not self.storage.in_memory(writer, place_of_access(writer, written)):
            return False
        return self.storage.share(written.base, access.base)

    def _between(
        self,
        source: Statement,
        sink: Statement,
        first: Access,
        second: Access,
        kind: Literal["flow", "anti", "output", "order"],
    ) -> Iterator[Edge]:
        shared = common([source.loops, sink.loops])
        own = self.private(first.base) if first.base == second.base else ()
        for depth, loop in enumerate(shared):
            if loop in own:
                continue
            orders: dict[Loop, Order] = {loop: "<"}
            orders |= dict.fromkeys(shared[:depth], "=")
            if self.meetings.meet((source, first), (sink, second), orders):
                yield Edge(source, sink, loop, kind, first, second)
        if source.number < sink.number:
            same: dict[Loop, Order] = dict.fromkeys(shared, "=")
            if self.meetings.meet((source, first), (sink, second), same):
                yield Edge(source, sink, None, kind, first, second)

    def harmless(self, edge: Edge) -> bool:
        """Whether the two may change places."""
        source, sink = edge.source, edge.sink
        one, two = self.effects[source].updates, self.effects[sink].updates
        both_targets = edge.first is one[0] and edge.second is two[0]
        if both_targets and edge.first.base == edge.second.base and source.kind == sink.kind == "accumulate":
            group = _GROUPS.get(source.operator)
            return group is not None and group == _GROUPS.get(sink.operator)
        if source is sink and source.kind == "extremum" and edge.first in one and edge.second in one:
            return True
        return source is sink and edge.kind == "output" and self._always_the_same(source)

    def _always_the_same(self, statement: Statement) -> bool:
        """Whether an assignment writes one and the same value in all its rounds."""
        varying = {loop.variable for loop in statement.loops} | self.meetings.changing
        return statement.kind == "assign" and not names_of(statement.value) & varying

    def collide(self, statement: Statement, loops: Sequence[Loop], differing: Loop) -> bool:
        """Whether rounds that differ in ``differing``, one of ``loops``, may meet in the target; other loops of the
        statement are in the same round."""
        target = self.effects[statement].updates[0]
        if differing in self.private(target.base):
            return False
        own = self.private(target.base)
        orders: dict[Loop, Order] = {loop: "=" for loop in statement.loops if loop not in loops or loop in own}
        orders[differing] = "<"
        return self.meetings.meet((statement, target), (statement, target), orders)


def place_of_access(statement: Statement, access: Access) -> Place:
    places = [statement.target, *(place for place, _ in statement.also)]
    return next(place for place in places if place.node is access.node)


def common(chains: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that all chains begin with."""
    if not chains:
        return ()
    shared = []
    for level in zip(*chains, strict=False):
        if any(loop is not level[0] for loop in level):
            break
        shared.append(level[0])
    return tuple(shared)


def why(edge: Edge) -> str:
    """The dependence in a sentence."""
    writer, reader = (edge.first, edge.second) if edge.kind != "anti" else (edge.second, edge.first)
    written, read = shortened(writer.node), shortened(reader.node)
    loop = edge.carrier
    across = f" of the loop over {loop.variable}" if loop is not None else ""
    if writer.base != reader.base:
        return f"{written} and {read} may be the same memory"
    if edge.kind == "order":
        return f"{writer.base} grows in the order of the rounds{across}"
    if edge.kind == "output":
        if dotted(writer.node):
            return f"{written} is assigned again in every round{across}, and the last value counts"
        return f"{written} may be written in several rounds{across}, and the last one counts"
    if edge.kind == "anti":
        return f"{read} is read before a later round{across} writes {written}"
    if dotted(writer.node) and written == read:
        return f"{written} needs its own value of the iteration before"
    target = shortened(edge.sink.target.node)
    return f"{target} needs {read}, written by an earlier iteration"
