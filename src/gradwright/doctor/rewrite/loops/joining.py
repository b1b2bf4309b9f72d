"""Rows that are joined to a tensor in every round, ``out = torch.cat([out, row[None]])``: they are appended to it."""

from __future__ import annotations

import ast

from gradwright.doctor.rewrite.loops.expressions import indices_of, is_place, literal, same
from gradwright.doctor.rewrite.loops.ir import Place
from gradwright.doctor.rewrite.loops.tree import Action
from gradwright.doctor.rewrite.source_text import DeclinedError
from gradwright.ground.syntax import dotted, shortened

_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.vstack", "torch.row_stack", "torch.hstack")


def grown(place: Place, value: ast.expr) -> ast.expr | None:
    """What ``target = torch.cat([target, row.unsqueeze(0)])`` or ``target = target + [item]`` appends.

    The row; of ``torch.cat([target, rows])`` the rows, whose number of axes tells them from one row.
    """
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and is_place(value.left, place):
        return value.right.elts[0] if isinstance(value.right, ast.List) and len(value.right.elts) == 1 else None
    if isinstance(value, ast.IfExp):
        return _begun(place, value)
    if not isinstance(value, ast.Call) or dotted(value.func) not in _JOINS:
        return None
    given = [*value.args[1:], *(keyword.value for keyword in value.keywords)]
    parts = value.args[0] if value.args else None
    if not isinstance(parts, (ast.List, ast.Tuple)) or len(parts.elts) != 2 or not is_place(parts.elts[0], place):
        return None
    if any(literal(axis) != 0 for axis in given):
        raise DeclinedError(f"{place.base} grows along another axis than its first: {shortened(value)}")
    return _one_row(parts.elts[1]) or parts.elts[1]


def _begun(place: Place, value: ast.IfExp) -> ast.expr | None:
    """What ``rows if target is None else torch.cat([target, rows])`` appends."""
    nothing = is_none(value.test, place)
    if nothing is None:
        return None
    first, later = (value.body, value.orelse) if nothing else (value.orelse, value.body)
    row = grown(place, later)
    return row if row is not None and begins_with(first, row) else None


def adds_one(action: Action) -> bool:
    """Whether an append adds one item, of one shape; ``torch.cat([target, rows])`` may add any number of rows."""
    value = action.node.value if isinstance(action.node, ast.Assign) else None
    parts = value.args[0] if isinstance(value, ast.Call) and value.args else None
    joined = isinstance(value, ast.IfExp) or isinstance(parts, (ast.List, ast.Tuple))
    return not joined or (isinstance(parts, (ast.List, ast.Tuple)) and _one_row(parts.elts[-1]) is not None)


def is_none(test: ast.expr, place: Place) -> bool | None:
    """True for ``place is None``, False for ``place is not None``, None for other tests."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not is_place(test.left, place):
        return None
    other = test.comparators[0]
    if not isinstance(other, ast.Constant) or other.value is not None:
        return None
    return {ast.Is: True, ast.IsNot: False}.get(type(test.ops[0]))


def begins_with(first: ast.expr, row: ast.expr) -> bool:
    """Whether the first rows of a tensor are what it grows by from then on."""
    return same(_one_row(first) or first, row)


def _one_row(node: ast.expr) -> ast.expr | None:
    """``row`` for ``row.unsqueeze(0)``, ``row[None]``, ``row.reshape(1)``, ``torch.tensor([row])``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        arguments = [literal(argument) for argument in node.args]
        if (node.func.attr, arguments) in (("unsqueeze", [0]), ("reshape", [1]), ("view", [1])):
            return node.func.value
        listed = node.args[0] if len(node.args) == 1 else None
        if dotted(node.func) == "torch.tensor" and isinstance(listed, ast.List) and len(listed.elts) == 1:
            return listed.elts[0]
    if isinstance(node, ast.Subscript):
        first, *rest = indices_of(node)
        whole = all(isinstance(index, ast.Slice) and not (index.lower or index.upper or index.step) for index in rest)
        if isinstance(first, ast.Constant) and first.value is None and whole:
            return node.value
    return None
