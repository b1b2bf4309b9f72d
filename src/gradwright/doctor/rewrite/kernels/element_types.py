"""What Numba takes the numbers of a kernel for: needed where a number gets a place in an array."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gradwright.doctor.rewrite.kernels.values import Type

FLOAT64, INT64, BOOL = "np.float64", "np.int64", "np.bool_"
WRITTEN: dict[Type, str] = {"float": FLOAT64, "int": INT64, "bool": BOOL}
MOST_PASSES = 6
_KEEPING = frozenset({"exp", "log", "sqrt", "tanh", "sin", "cos", "log1p", "expm1", "fabs"})


class UnknownTypeError(Exception):
    """It can't be told."""


def types_of(statements: Sequence[ast.stmt], given: Mapping[str, str]) -> dict[str, str]:
    """The dtype, as the kernel writes it, of every number that ``statements`` bind: one that holds all that it is bound
    to. ``given``: those of other numbers, of the elements of arrays, of calls. Raises: UnknownTypeError.

    >>> types_of(ast.parse("s = 0\\ns = s + x[i]").body, {"x": "x.dtype", "i": "np.int64"})["s"]
    'np.float64'
    """
    found = dict(given)
    for _ in range(MOST_PASSES):
        before = dict(found)
        for node in (node for statement in statements for node in ast.walk(statement)):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                found[node.target.id] = INT64
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                _bind(node.targets[0].id, node.value, found)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                before_it = ast.Name(node.target.id, ast.Load())
                _bind(node.target.id, ast.BinOp(before_it, node.op, node.value), found)
        if found == before:
            return found
    raise UnknownTypeError


def _bind(name: str, value: ast.expr, found: dict[str, str]) -> None:
    new = _of(value, found)
    found[name] = _wider(found[name], new) if name in found else new


def _of(node: ast.expr, known: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        return {bool: BOOL, int: INT64, float: FLOAT64}[type(node.value)]
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Subscript):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return INT64
        return _of(node.value, known)
    if isinstance(node, ast.Compare):
        return BOOL
    if isinstance(node, ast.BoolOp):
        return _all([_of(one, known) for one in node.values])
    if isinstance(node, ast.UnaryOp):
        return BOOL if isinstance(node.op, ast.Not) else _of(node.operand, known)
    if isinstance(node, ast.IfExp):
        return _all([_of(node.body, known), _of(node.orelse, known)])
    if isinstance(node, ast.BinOp):
        sides = {_of(node.left, known), _of(node.right, known)}
        if sides == {INT64} and isinstance(node.op, ast.Div):
            return FLOAT64
        if BOOL not in sides and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            return _all(list(sides))
    if isinstance(node, ast.Call) and not node.keywords:
        return _called(node, known)
    raise UnknownTypeError


def _called(node: ast.Call, known: Mapping[str, str]) -> str:
    text = ast.unparse(node.func)
    if text.endswith(".dtype.type"):
        return text.removesuffix(".type")
    if text in ("max", "min") and len(node.args) > 1:
        return _all([_of(one, known) for one in node.args])
    if text == "float":
        return FLOAT64
    if text in known:
        return known[text]
    if text.removeprefix("math.") in _KEEPING and len(node.args) == 1:
        inner = _of(node.args[0], known)
        return FLOAT64 if inner == INT64 else inner
    raise UnknownTypeError


def _all(types: Sequence[str]) -> str:
    first, *more = types
    for one in more:
        first = _wider(first, one)
    return first


def _wider(one: str, other: str) -> str:
    """Of an integer and a float32 Numba makes a float64, as NumPy does."""
    if one == other:
        return one
    if BOOL in (one, other):
        raise UnknownTypeError
    if FLOAT64 in (one, other) or INT64 in (one, other):
        return FLOAT64
    raise UnknownTypeError  # of two arrays that may differ
