"""What a statement reads and writes, and which names may lie in one memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.rewrite.loops.expressions import (
    indices_of,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Nest, Place, Statement
from gradwright.doctor.rewrite.loops.meetings import Access
from gradwright.doctor.source.seen import Seen, SeenValue, key_of
from gradwright.ground.syntax import dotted

_SIZES = {"shape", "size", "dim", "ndim", "numel", "dtype", "device", "new_zeros", "new_ones", "new_empty", "new_full"}
_LIKE = {"zeros_like", "ones_like", "empty_like", "full_like", "len"}
# Attributes that show the same memory in another way.
_SHOWS = {"T", "mT", "H", "mH", "data", "real", "imag"}


@dataclass(frozen=True, eq=False)
class Effects:
    """``reads``: what a statement evaluates. ``updates``: what it writes; an accumulation, append or extremum also
    reads the old value of its target, which is the first of them."""

    reads: tuple[Access, ...]
    updates: tuple[Access, ...]


def effects_of(statement: Statement) -> Effects:
    keys = (
        [ast.parse(statement.operator, mode="eval").body] if statement.kind == "append" and statement.operator else []
    )
    places = [statement.target, *(place for place, _ in statement.also)]
    evaluated = [
        statement.value,
        *(value for _, value in statement.also),
        *(index for place in places for index in place.indices),
        *statement.guards,
        *(end for loop in statement.loops for end in (loop.start, loop.stop)),
        *keys,
    ]
    counts = {loop.variable for loop in statement.loops}
    reads = tuple(access for node in evaluated for access in read_in(node) if access.base not in counts)
    return Effects(reads, tuple(Access(place.base, place.indices, place.node) for place in places))


def read_in(node: ast.AST) -> Iterator[Access]:
    """The values that an expression reads: names, attributes, elements. Sizes and dtypes are none."""
    if isinstance(node, ast.Subscript) and dotted(node.value):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return
        yield Access(dotted(node.value), indices_of(node), node)
        for index in indices_of(node):
            yield from read_in(index)
        return
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr not in _SIZES and function.attr not in _LIKE:
                yield from read_in(function.value)
        elif not isinstance(function, ast.Name):
            yield from read_in(function)
        if dotted(function).rsplit(".", 1)[-1] in _LIKE:
            return
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            yield from read_in(argument)
        return
    if isinstance(node, ast.Attribute) and node.attr in _SIZES:
        return
    if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node):
        yield Access(dotted(node), (), node)
        return
    for child in ast.iter_child_nodes(node):
        yield from read_in(child)


class Storage:
    """Which bases may share memory, by what was seen of them."""

    def __init__(self, nest: Nest, seen: Seen) -> None:
        self.nest, self.seen = nest, seen
        self.effects = {statement: effects_of(statement) for statement in nest.statements}
        self._memories: dict[str, set[int] | None] = {}
        self._roots = {
            dotted(node.func.value)
            for statement in nest.statements
            for node in ast.walk(statement.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        bound = {update.base for effects in self.effects.values() for update in effects.updates if not update.indices}
        for base in {access.base for one in self.effects.values() for access in (*one.reads, *one.updates)}:
            self._memories[base] = self._look_up(base, bound)

    def memories(self, base: str) -> set[int] | None:
        """The storages older than the nest that the base was seen in; None if nothing was seen of it."""
        return self._memories.get(base)

    def _look_up(self, base: str, bound: set[str]) -> set[int] | None:
        found: set[int] | None = None
        name, dot, rest = base.partition(".")
        if not dot and name in self.seen.live_ins:
            found = memories_of(self.seen.live_ins[name])
        for effects in self.effects.values():
            for access in (*effects.reads, *effects.updates):
                if access.base != base:
                    continue
                node = access.node.value if isinstance(access.node, ast.Subscript) else access.node
                for value in self.seen.values.get(key_of(node), ()):
                    found = (found or set()) | memories_of(value)
        if dot and (rest.rsplit(".", 1)[-1] in _SHOWS):
            under = self._look_up(base.rpartition(".")[0], bound)
            return None if under is None else under | (found or set())
        if found is None and (base in bound or (name not in self.seen.live_ins and base in self._roots)):
            return set()  # a name of the nest's own that was never reached in the run, or a module
        return found

    def share(self, one: str, other: str) -> bool:
        """Whether two different bases may lie in one memory."""
        first, second = self.memories(one), self.memories(other)
        if first is None or second is None:
            return True
        return bool(first & second)

    def in_memory(self, statement: Statement, place: Place) -> bool:
        """Whether a write changes something in memory, rather than what a name stands for."""
        if statement.kind == "append":
            return bool(place.indices)  # the list grows; what lies in it is not touched
        if place.indices or "." in place.base:
            return True
        if isinstance(statement.node, (ast.AugAssign, ast.Expr)):
            found = what(place.node, self.seen)
            return found is None or found.tensor is not None or found.type == "list"
        return False


def memories_of(value: SeenValue) -> set[int]:
    own = {value.tensor.memory} if value.tensor is not None and value.tensor.memory else set()
    return own.union(*(memories_of(item) for item in value.items))
