"""``x * weights`` where `weights` may be float64 and `x` is not: the text says no more than that it may."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import FunctionNode, Suspect, is_number, own_nodes
from gradwright.doctor.source.names import locals_of
from gradwright.doctor.source.statements import Origins

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_WIDE = frozenset({"float64", "double", "numpy", "from_numpy"})
# What makes a tensor of numbers that stand in the text, or of none.
MAKERS = frozenset({"tensor", "arange", "linspace", "logspace", "ones", "zeros", "full", "eye", "as_tensor"})


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: both operands. Sums and products with a global, all of them where the function speaks of float64."""
    local = locals_of(function)
    wide = any(_is_wide(node, origins) for node in own_nodes(function))
    for node in own_nodes(function):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC)):
            continue
        sides = (node.left, node.right)
        if any(map(is_number, sides)):
            continue
        if wide or any(isinstance(side, ast.Name) and side.id not in local | set(origins.names) for side in sides):
            yield Suspect("promoted", node, function, sides)


def _is_wide(node: ast.AST, origins: Origins) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _WIDE
    return isinstance(node, ast.Name) and origins.names.get(node.id, "").split(".")[0] == "numpy"
