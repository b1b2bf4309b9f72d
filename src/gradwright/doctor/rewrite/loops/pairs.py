"""What torch gives in pairs, values and their places: ``topk``, ``sort``, ``max`` along an axis; membership."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.cells import from_the_end, made_call
from gradwright.doctor.rewrite.loops.known import PAIR
from gradwright.doctor.rewrite.loops.value import Value, aligned
from gradwright.doctor.rewrite.source_text import DeclinedError

if TYPE_CHECKING:
    from gradwright.doctor.rewrite.loops.lowering import Lowering


def one_of_pair(low: Lowering, node: ast.Call, attr: str) -> Value | None:
    """``row.topk(k).indices``; None for a call that gives no pair of values and indices."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if function not in PAIR[attr]:
        return None
    in_torch = low.context.frame.module_of(node.func).startswith("torch.")
    owner = None if in_torch or not isinstance(node.func, ast.Attribute) else node.func.value
    given = [*([owner] if owner is not None else []), *node.args]
    if not given:
        return None
    value = low.expression(given[0])
    dim, rest, keywords = _dim_of_pair(node, function, given[1:])
    others = [*rest, *(keyword.value for keyword in keywords)]
    if value.number or not value.cell or any(not low.stays_the_same(other) for other in others):
        raise DeclinedError(f"{function} of something that is no row")
    at = from_the_end(dim, value.cell)
    if isinstance(at, ast.Tuple):
        return None
    if function in ("topk", "sort"):
        named = [*keywords] if nodes.integer(at) == -1 else [*keywords, ast.keyword("dim", at)]
        made = made_call(node, owner, function, value.node, rest, named, "", low)
    else:
        made = made_call(node, owner, function, value.node, [at, *rest], keywords, "", low)
    keeps = function in ("topk", "sort", "cummax", "cummin")
    found = replace(value, node=nodes.attribute(made, attr), cell=value.cell if keeps else value.cell - 1)
    if attr == "indices":
        return replace(found, dtype="int64", live=False, domain=False, carriers=frozenset())
    return found


def _dim_of_pair(
    node: ast.Call, function: str, rest: Sequence[ast.expr]
) -> tuple[ast.expr, list[ast.expr], list[ast.keyword]]:
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "dim"), None)
    keywords = [keyword for keyword in node.keywords if keyword.arg != "dim"]
    if function in ("topk", "sort"):
        room = 1 if function == "topk" else 0
        if len(rest) > room:
            raise DeclinedError(f"{function} with unusual arguments")
        return named or nodes.constant(-1), list(rest), keywords
    if named is not None and not rest and not keywords:
        return named, [], []
    if named is None and len(rest) == 1 and not keywords:
        return rest[0], [], []
    raise DeclinedError(f"{function} with unusual arguments")


def membership(low: Lowering, item: Value, row: Value) -> Value:
    """``item in row``: whether any element of the row is equal to it."""
    if row.number or not row.cell or item.cell:
        raise DeclinedError("a membership in something that is no row")
    pair = low.together([row, item])
    one, other = aligned(pair, low.order)
    same = low.combined(ast.Compare(one, [ast.Eq()], [other]), pair, "bool")
    node = same.node if row.cell == 1 else nodes.method(same.node, "flatten", nodes.constant(-row.cell))
    found = nodes.method(node, "any", nodes.constant(-1))
    return replace(same, node=found, cell=0, number=True, live=False, domain=False)
