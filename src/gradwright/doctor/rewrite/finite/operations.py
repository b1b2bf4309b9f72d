"""What a node computes, whichever way it is written: an operator, a function of torch's, a method of a tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gradwright.doctor.source.expressions.suspect import called, is_torch_function
from gradwright.doctor.source.statements import Origins
from gradwright.ground.syntax import dotted_names

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Div: "div", ast.Pow: "pow", ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.MatMult: "matmul",
}  # fmt: skip
_ALIASES = {"true_divide": "div", "divide": "div", "multiply": "mul", "arccos": "acos", "arcsin": "asin"}


@dataclass(frozen=True)
class Operation:
    """``name`` as torch has it ("sqrt", "div", "pow"), whichever way it is written; tensors and numbers it takes."""

    name: str
    operands: tuple[ast.expr, ...]
    keywords: tuple[ast.keyword, ...] = ()

    @property
    def operand(self) -> ast.expr:
        return self.operands[0]


def operation_of(node: ast.AST, origins: Origins) -> Operation | None:
    """What a node computes; None of what is neither an operator, a function of torch's nor a tensor's method."""
    if isinstance(node, ast.BinOp):
        name = _OPERATORS.get(type(node.op), "")
        return Operation(name, (node.left, node.right)) if name else None
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    name = called(node, origins)
    name = _ALIASES.get(name, name)
    if is_torch_function(node, origins):
        named = [one.value for one in node.keywords if one.arg in ("input", "self")]
        rest = [one for one in node.keywords if one.arg not in ("input", "self")]
        parts = (*named, *node.args)
    elif isinstance(node.func, ast.Attribute) and not _is_modules(node.func, origins):
        parts, rest = (node.func.value, *node.args), node.keywords
    else:
        return None
    return Operation(name, parts, tuple(rest)) if parts else None


def _is_modules(function: ast.Attribute, origins: Origins) -> bool:
    names = dotted_names(function)
    return bool(names) and names[0] in origins.names
