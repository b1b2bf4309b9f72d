"""Columns that are walked down one after the other, taken row by row: the loop over columns goes inside.

``for j: (before; for t: inside; after)`` becomes ``for j: before``, ``for t: for j: inside``, ``for j: after``, where
no round of ``j`` meets another: an array that is written is written and read at ``j`` alone, in one and the same axis,
and a number is set in a round before it is read. Numbers that live on from one part to the next get a place per ``j``.
What happens to one element stays in its order, so its value is what it was.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradwright.doctor.rewrite.kernels.drifting import bound_names
from gradwright.doctor.rewrite.kernels.element_types import INT64, UnknownTypeError, types_of
from gradwright.doctor.rewrite.kernels.integers import parts_of
from gradwright.doctor.rewrite.loops.nodes import integer, name

FEWEST = 4
_PLAIN = (ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Pass)


@dataclass(frozen=True)
class Nest:
    """``ranks``: of arrays; ``own``: those that share memory with no other. ``types``: dtypes of numbers and elements.
    ``size``: what the end of a range was in the run, 0 where that is unknown."""

    ranks: Mapping[str, int]
    own: frozenset[str]
    types: Mapping[str, str]
    size: Callable[[ast.expr], int]


def by_rows(body: Sequence[ast.stmt], nest: Nest, returned: frozenset[str]) -> list[ast.stmt]:
    """The statements, with every such loop turned; the very same where there is none."""
    whole = ast.parse(ast.unparse(ast.Module(list(body), [])))

    def turned(statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for one in statements:
            found = _Turn(one, nest, whole, returned).done() if isinstance(one, ast.For) else None
            if found is None and isinstance(one, ast.For | ast.While | ast.If):
                one.body = turned(one.body)
            out += found or [one]
        return out

    return turned(whole.body)


class _Turn:
    """One loop, ``for j``."""

    def __init__(self, loop: ast.For, nest: Nest, whole: ast.Module, returned: frozenset[str]) -> None:
        self.loop, self.nest = loop, nest
        self.j = loop.target.id if isinstance(loop.target, ast.Name) else ""
        self.bound = bound_names(loop.body)
        self.whole, self.returned = whole, returned
        self.expanded: list[str] = []

    def done(self) -> list[ast.stmt] | None:
        if not (self._is_plain() and self._rounds_are_apart() and self._reads_rows_then()):
            return None
        scalars = self.bound - _counters(self.loop)
        if scalars & set(self.nest.types) or not all(self._set_before_read(one) for one in sorted(scalars)):
            return None
        try:
            types = types_of(self.loop.body, {**dict.fromkeys(_counters(self.whole), INT64), **self.nest.types})
        except UnknownTypeError:
            return None
        made = [ast.parse(f"{one} = np.empty({self._room()}, {types[one]})").body[0] for one in sorted(self.expanded)]
        return [*made, *self._split(self.loop.body)]

    # --- whether -----------------------------------------------------------------------------------------------------

    def _loops(self) -> list[ast.For]:
        return [node for node in _inside(self.loop.body) if isinstance(node, ast.For)]

    def _is_plain(self) -> bool:
        ranges = [self.loop, *self._loops()]
        if not self.j or self.j in self.bound or not all(_is_range(one) for one in ranges):
            return False
        if not all(isinstance(node, _PLAIN) for node in _inside(self.loop.body) if isinstance(node, ast.stmt)):
            return False
        over = self.loop.iter
        assert isinstance(over, ast.Call)
        start = integer(over.args[0]) if len(over.args) > 1 else 0
        if start is None or start < 0 or len(over.args) > 2 or self.bound & _names(over):
            return False
        if any(self._is_used_elsewhere(one) for one in {self.j} | self.bound):
            return False
        return any(self._goes_outside(one) for one in self.loop.body) and self.nest.size(over.args[-1]) >= FEWEST

    def _is_used_elsewhere(self, what: str) -> bool:
        """Apart from loops that bind it anew."""
        loops = [one for one in ast.walk(self.whole) if isinstance(one, ast.For) and what in _names(one.target)]
        within = {id(node) for loop in [self.loop, *loops] for node in ast.walk(loop)}
        return what in self.returned or any(
            isinstance(node, ast.Name) and node.id == what and id(node) not in within for node in ast.walk(self.whole)
        )

    def _room(self) -> str:
        assert isinstance(self.loop.iter, ast.Call)
        stop = self.loop.iter.args[-1]
        return ast.unparse(stop) if isinstance(stop, ast.Subscript) else f"max({ast.unparse(stop)}, 0)"

    def _goes_outside(self, one: ast.stmt) -> bool:
        """A loop whose range is the same in all rounds of ``j``."""
        return isinstance(one, ast.For) and not ({self.j} | self.bound) & _names(one.iter)

    def _rounds_are_apart(self) -> bool:
        nodes = _inside(self.loop.body)
        elements = [one for one in nodes if isinstance(one, ast.Subscript) and not isinstance(one.value, ast.Attribute)]
        for one in elements:
            parts = parts_of(one)
            if len(parts) != self.nest.ranks.get(_base(one)) or any(isinstance(part, ast.Slice) for part in parts):
                return False
        of_these = {id(one.value) for one in elements}
        of_these |= {
            id(one.value) for one in nodes if isinstance(one, ast.Attribute) and one.attr in ("shape", "dtype")
        }
        arrays = [one for one in nodes if isinstance(one, ast.Name) and one.id in self.nest.ranks]
        if any(id(one) not in of_these or not isinstance(one.ctx, ast.Load) for one in arrays):
            return False  # an array is given to something, or is named anew
        for written in {_base(one) for one in elements if isinstance(one.ctx, ast.Store)}:
            places = [[ast.unparse(part) for part in parts_of(one)] for one in elements if _base(one) == written]
            if written not in self.nest.own or not any(set(axis) == {self.j} for axis in zip(*places, strict=True)):
                return False
        return True

    def _reads_rows_then(self) -> bool:
        """Whether ``j`` walks along rows, and nothing that it does would walk down columns."""
        inside = _inside([one for one in self.loop.body if self._goes_outside(one)])
        counters = {name for one in self.loop.body for name in _counters(one)}
        along = False
        for node in inside:
            if not isinstance(node, ast.Subscript) or _base(node) not in self.nest.ranks:
                continue
            *front, last = [_names(part) for part in parts_of(node)]
            if any(self.j in names for names in front) and last & counters:
                return False
            along = along or (self.j in last and any(names & counters for names in front))
        return along

    def _set_before_read(self, number: str) -> bool:
        """Whether each round of ``j`` sets the number before it reads it; notes those that outlive their part."""
        block: list[ast.stmt] = self.loop.body
        while len(using := [one for one in block if number in _names(one)]) == 1 and self._goes_outside(using[0]):
            assert isinstance(using[0], ast.For)
            block = using[0].body
        first, last = using[0], using[-1]
        if not (isinstance(first, ast.Assign) and _is_name(first.targets[0], number)):
            return False
        if number in _names(first.value):
            return False
        if any(self._goes_outside(one) for one in block[block.index(first) : block.index(last) + 1]):
            self.expanded.append(number)
        return True

    # --- how ---------------------------------------------------------------------------------------------------------

    def _split(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        together: list[ast.stmt] = []
        for one in [*statements, None]:
            if one is not None and not self._goes_outside(one):
                together.append(_Expanded(self.expanded, self.j).visit(one))
                continue
            if together:
                out.append(ast.For(self.loop.target, self.loop.iter, together, []))
                together = []
            if isinstance(one, ast.For):
                out.append(ast.For(one.target, one.iter, self._split(one.body), []))
        return out


class _Expanded(ast.NodeTransformer):
    def __init__(self, names: Sequence[str], j: str) -> None:
        self.names, self.j = names, j

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Subscript(name(node.id), name(self.j), node.ctx) if node.id in self.names else node


def _is_range(loop: ast.For) -> bool:
    plain = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"
    return plain and isinstance(loop.target, ast.Name) and not loop.orelse


def _inside(statements: Sequence[ast.stmt]) -> list[ast.AST]:
    return [node for one in statements for node in ast.walk(one)]


def _counters(node: ast.AST) -> set[str]:
    return {name for one in ast.walk(node) if isinstance(one, ast.For) for name in _names(one.target)}


def _base(node: ast.Subscript) -> str:
    return node.value.id if isinstance(node.value, ast.Name) else ""


def _is_name(node: ast.expr, wanted: str) -> bool:
    return isinstance(node, ast.Name) and node.id == wanted


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
