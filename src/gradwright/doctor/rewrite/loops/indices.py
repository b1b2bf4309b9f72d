"""Indices as they are written: ``x[i][j]`` as one subscript, ``...`` as slices; what integers known here compare to."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.value import Value

_SIGNS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def decided(sides: Sequence[Value], ops: Sequence[ast.cmpop]) -> bool | None:
    """What a comparison of two integers comes to, where both are known: how many axes something has, and a literal."""
    numbers = [nodes.integer(side.node) for side in sides]
    if len(ops) != 1 or type(ops[0]) not in _SIGNS or numbers[0] is None or numbers[1] is None:
        return None
    return _SIGNS[type(ops[0])](numbers[0], numbers[1])


def indexed(node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """``x[i][j]`` as x at (i, j); a slice ends the chain, for what follows it indexes the slice."""
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    base = node.value
    if isinstance(base, ast.Subscript):
        inner_base, inner = indexed(base)
        if all(not isinstance(p, ast.Slice) and not nodes.is_none(p) and not dots(p) for p in inner):
            return inner_base, inner + parts
    return base, parts


def without_ellipsis(parts: Sequence[ast.expr], cell: int) -> list[ast.expr]:
    taken = sum(not nodes.is_none(part) and not dots(part) for part in parts)
    out: list[ast.expr] = []
    for part in parts:
        out += [nodes.whole() for _ in range(cell - taken)] if dots(part) else [part]
    return out


def dots(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is Ellipsis
