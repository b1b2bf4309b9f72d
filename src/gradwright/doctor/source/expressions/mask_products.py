"""``g * (x > 0).float()``: a choice written as a product, in which 0 * inf and 0 * NaN are NaN."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.expressions.suspect import FunctionNode, Suspect, is_number, own_nodes
from gradwright.doctor.source.statements import Origins

_CASTS = frozenset({"float", "double", "half", "to", "type_as", "int", "long"})


def find(function: FunctionNode, origins: Origins) -> Iterator[Suspect]:
    """``parts``: the mask, without a cast of it, and what it is multiplied with; ``others``: the mask as it stands."""
    comparisons = _named_comparisons(function)
    for node in own_nodes(function):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
            continue
        for side, other in ((node.left, node.right), (node.right, node.left)):
            mask = read_mask(side, comparisons)
            if mask is not None and not is_number(other):
                yield Suspect("mask product", node, function, (mask, other), (side,))
                break


def read_mask(node: ast.expr, comparisons: frozenset[str]) -> ast.expr | None:
    """The comparison, or the name of one, below what casts it; None if it is no mask."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS:
        return read_mask(node.func.value, comparisons)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return node if read_mask(node.operand, comparisons) is not None else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return node
    return node if isinstance(node, ast.Name) and node.id in comparisons else None


def _named_comparisons(function: FunctionNode) -> frozenset[str]:
    """Names that are bound once, to a comparison."""
    bound = [node.id for node in own_nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return frozenset(
        target.id
        for node in own_nodes(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Compare)
        for target in node.targets
        if isinstance(target, ast.Name) and bound.count(target.id) == 1
    )
