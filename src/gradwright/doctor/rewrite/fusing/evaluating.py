"""A formula's value for tensors: a walk over its tree, with torch's operations. Its text is never run as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def value_of(node: ast.expr, given: Mapping[str, Tensor]) -> Any:
    """``node``: in the words of ``read_formula``. Raises: TypeError where torch has no such operation of numbers."""
    import torch

    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return given[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](value_of(node.operand, given))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](value_of(node.left, given), value_of(node.right, given))
    if isinstance(node, ast.Compare):
        return _OPERATORS[type(node.ops[0])](value_of(node.left, given), value_of(node.comparators[0], given))
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    name = node.func.id
    function = getattr(torch.nn.functional if name == "silu" else torch, name)
    return function(*(value_of(one, given) for one in node.args))
