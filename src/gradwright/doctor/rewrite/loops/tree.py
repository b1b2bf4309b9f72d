"""What ``reading`` makes of a loop before it is flattened: loops, branches and single actions, as a tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gradwright.doctor.rewrite.loops.expressions import names_of
from gradwright.doctor.rewrite.loops.ir import Kind, Loop, Place


@dataclass
class Action:
    """One assignment, as :class:`Statement`, not yet placed among loops and guards."""

    kind: Kind
    target: Place
    value: ast.expr
    node: ast.stmt
    operator: str = ""
    also: tuple[tuple[Place, ast.expr], ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        return self.target, *(place for place, _ in self.also)

    @property
    def expressions(self) -> tuple[ast.expr, ...]:
        """What is evaluated: values and indices, not the old value of the target."""
        keys = (ast.parse(self.operator, mode="eval").body,) if self.kind == "append" and self.operator else ()
        inside = tuple(index for place in self.places for index in place.indices)
        return self.value, *(value for _, value in self.also), *inside, *keys


@dataclass
class Branch:
    test: ast.expr
    then: list[Item]
    other: list[Item]
    node: ast.stmt


@dataclass
class Do:
    loop: Loop
    body: list[Item]


Item = Action | Branch | Do


def actions(items: Iterable[Item]) -> Iterator[Action]:
    """Every action, in the order of the text."""
    for item in items:
        if isinstance(item, Action):
            yield item
        elif isinstance(item, Do):
            yield from actions(item.body)
        else:
            yield from actions(item.then)
            yield from actions(item.other)


def loops_in(items: Iterable[Item]) -> Iterator[Loop]:
    """Every loop, outer ones before those inside."""
    for item in items:
        if isinstance(item, Do):
            yield item.loop
            yield from loops_in(item.body)
        elif isinstance(item, Branch):
            yield from loops_in([*item.then, *item.other])


def root(base: str) -> str:
    """The name that a place hangs on: ``self`` for ``self.weight``."""
    return base.split(".", 1)[0]


def reads_of(action: Action) -> set[str]:
    """Names that the action reads: what it evaluates, what its places hang on, and an old value it adds to."""
    found = {name for expression in action.expressions for name in names_of(expression)}
    for place in action.places:
        if place.indices or "." in place.base or action.kind != "assign":
            found.add(root(place.base))
    return found


def assigned(action: Action) -> set[str]:
    """Plain names that the action gives a value."""
    return {place.base for place in action.places if not place.indices and "." not in place.base}


@dataclass
class Flow:
    """Which names a stretch of items reads before it has surely assigned them, and which it surely assigns."""

    exposed: set[str] = field(default_factory=set)

    def block(self, items: Sequence[Item], bound: set[str]) -> set[str]:
        for item in items:
            bound = self.item(item, bound)
        return bound

    def item(self, item: Item, bound: set[str]) -> set[str]:
        if isinstance(item, Action):
            self.exposed |= reads_of(item) - bound
            return bound | (assigned(item) if item.kind == "assign" else set())
        if isinstance(item, Branch):
            self.exposed |= names_of(item.test) - bound
            return self.block(item.then, set(bound)) & self.block(item.other, set(bound))
        self.exposed |= (names_of(item.loop.start) | names_of(item.loop.stop)) - bound
        self.block(item.body, bound | {item.loop.variable})
        return bound


def exposed(items: Sequence[Item], bound: Iterable[str] = ()) -> set[str]:
    """Names that the items read, or may read, before they have assigned them."""
    flow = Flow()
    flow.block(items, set(bound))
    return flow.exposed
