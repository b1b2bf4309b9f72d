"""Names of the loop that only stand for something else: a row of a tensor, an integer computed from loop variables."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwright.doctor.rewrite.loops.expressions import (
    indices_of,
    names_of,
    picks_one,
    what,
)
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.storage import memories_of
from gradwright.doctor.source.seen import Seen, key_of
from gradwright.ground.syntax import dotted

_IN_PLACE = {"append", "extend", "insert", "update", "pop", "clear", "remove"}
_INTEGER_CALLS = {"int", "len", "min", "max", "abs", "round"}


class Bound(NamedTuple):
    """``names``: all that a body binds; ``anew``: those of them that are not only added to in place."""

    names: frozenset[str] = frozenset()
    anew: frozenset[str] = frozenset()


class Definitions:
    """``wanted``: names that are read after the loop."""

    def __init__(self, region: ast.stmt, seen: Seen, wanted: frozenset[str]) -> None:
        self.region, self.seen, self.wanted = region, seen, wanted
        self.stored = Counter(
            node.id for node in ast.walk(region) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        self.loads: dict[str, list[ast.Name]] = defaultdict(list)
        self._memories: dict[str, set[int]] = defaultdict(set)
        for node in ast.walk(region):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self.loads[node.id].append(node)
                for found in seen.values.get(key_of(node), ()):
                    self._memories[node.id] |= memories_of(found)
        for identifier, value in seen.live_ins.items():
            self._memories[identifier] |= memories_of(value)
        self.written = set(_written([region]))
        self.written_memories = {memory for base in self.written for memory in self.memories(base)}

    def memories(self, identifier: str) -> set[int]:
        """The storages that a name was seen to lie in, of those that are older than the loop."""
        return self._memories.get(identifier, set())

    def overlap(self, read: set[str], written: set[str]) -> bool:
        """Whether a value that is read may be changed by a write, directly or through another name of its memory."""
        memories = {memory for one in read for memory in self.memories(one)}
        return any(one in read or self.memories(one) & memories for one in written)

    def bound_in(self, loop: ast.For) -> Bound:
        """Names that the body of a loop binds."""
        inside = [inner for statement in loop.body for inner in ast.walk(statement)]
        stores = Counter(node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        added = Counter(
            node.target.id for node in inside if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        )
        return Bound(frozenset(stores), frozenset(stores - added))

    def row_stands_for(self, target: ast.Name, value: ast.expr, bound: Bound) -> bool:
        """Whether ``row`` of ``for row in x`` is ``x[i]`` wherever it is read.

        A row of a tensor is a view: it is, whatever is written, and what is added to it in place is added to ``x``. An
        item of a list is, if nothing writes the list.
        """
        if target.id in self.wanted:
            return False
        base = what(value.value, self.seen) if isinstance(value, ast.Subscript) else None
        if base is not None and base.tensor is not None:
            return target.id not in bound.anew
        return target.id not in bound.names and not (names_of(value) & self.written)

    def stands_for(self, identifier: str, value: ast.expr, node: ast.stmt, loops: Sequence[Loop]) -> bool:
        """Whether ``identifier = value`` may be left out, and the value be read instead of the name everywhere."""
        if self.stored[identifier] != 1 or identifier in self.wanted or not loops:
            return False
        around, end = loops[-1].node, (node.end_lineno or 0, node.end_col_offset or 0)
        for load in self.loads[identifier]:
            if not _inside(load, around) or (load.lineno, load.col_offset) < end:
                return False
        variables = {loop.variable for loop in loops}
        if any(self.stored[name] and name not in variables for name in names_of(value)):
            return False
        source = _source(identifier, node) or value
        return self._is_row(source, value) or self._is_integer(source, value)

    def _is_row(self, source: ast.expr, value: ast.expr) -> bool:
        """A basic index into a tensor gives a view of it; a single element as such matters only if it is written."""
        if not self.is_view(source, value):
            return False
        found = what(source, self.seen)
        assert isinstance(value, ast.Subscript)
        return (found is not None and found.tensor is not None and bool(found.tensor.shape)) or self._is_written(value)

    def is_view(self, source: ast.expr, value: ast.expr) -> bool:
        """Whether the value shows elements of a tensor as they are when it is read, not as they were when it was made.

        ``x[k]`` with a tensor ``k`` is a copy, no view.
        """
        if not isinstance(value, ast.Subscript) or not dotted(value.value):
            return False
        found = what(source, self.seen)
        if found is None or found.tensor is None:
            return False
        for index in indices_of(value):
            kind = what(index, self.seen)
            if not (isinstance(index, ast.Slice) or picks_one(index, self.seen)) or (kind and kind.tensor):
                return False
        return True

    def _is_written(self, value: ast.Subscript) -> bool:
        base = dotted(value.value).split(".", 1)[0]
        return base in self.written or bool(self.memories(base) & self.written_memories)

    def _is_integer(self, source: ast.expr, value: ast.expr) -> bool:
        found = what(source, self.seen)
        if found is None or found.type != "int" or isinstance(value, ast.Constant):
            return False
        for inner in ast.walk(value):
            if isinstance(inner, ast.Call):
                method = isinstance(inner.func, ast.Attribute) and inner.func.attr in ("item", "size", "dim", "numel")
                if not method and dotted(inner.func) not in _INTEGER_CALLS:
                    return False
        changing = {
            name for name in names_of(value) if name in self.written or self.memories(name) & self.written_memories
        }
        return not changing


def _source(identifier: str, node: ast.stmt) -> ast.expr | None:
    """What stands for a name in the text: ``j`` for b in ``a, b = i, j``."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return None
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
        pairs = zip(target.elts, node.value.elts, strict=False)
        return next((value for one, value in pairs if isinstance(one, ast.Name) and one.id == identifier), None)
    return node.value


def _inside(node: ast.expr, around: ast.AST) -> bool:
    first = (around.lineno, around.col_offset)  # type: ignore[attr-defined]  # a loop has a position
    last = (around.end_lineno, around.end_col_offset)  # type: ignore[attr-defined]  # the same
    return first <= (node.lineno, node.col_offset) < last


def _written(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Names whose elements are written, or which are added to in place."""
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        target: ast.AST | None = None
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method in _IN_PLACE or (method.endswith("_") and not method.endswith("__")):
                target = node.func.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id
