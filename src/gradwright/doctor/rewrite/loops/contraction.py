"""Sums of products over loops: a matrix product or ``torch.einsum``, where broadcasting would make something larger."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.cells import einsum
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.value import Value, joined_axes


def factors_of(node: ast.expr) -> list[ast.expr]:
    """``a * b * c`` as [a, b, c]; a square as its base twice."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return factors_of(node.left) + factors_of(node.right)
    return [node]


def contracted(low: Lowering, node: ast.expr, reduced: Sequence[Loop]) -> Value | None:
    """The sum of a product over ``reduced``, with its factors kept apart; None where plain array code is as good."""
    parts = factors_of(node)
    if len(parts) < 2:
        return None
    values = [low.expression(part) for part in parts]
    inner = [value for value in values if set(value.axes) & set(reduced)]
    outer = [value for value in values if not set(value.axes) & set(reduced)]
    if len(inner) < 2 or any(value.cell or value.number for value in values if value.axes):
        return None
    if any(value.dtype != inner[0].dtype or not value.floating for value in inner):
        return None
    if {loop for value in inner for loop in value.axes if loop in reduced} != set(reduced):
        return None
    axes = joined_axes(inner, low.order)
    if all(value.axes == axes for value in inner) and not (len(inner) == 2 and len(axes) == 1):
        return None  # nothing is made larger by multiplying first
    kept = [loop for loop in axes if loop not in reduced]
    made = _matmul(inner, kept, reduced) if len(inner) == 2 else None
    made = made or einsum(low, inner, [""] * len(inner), kept, "")
    product = replace(low.combined(made, inner, inner[0].dtype, cell=0), axes=tuple(kept))
    result = product
    for value in outer:
        result = low.arithmetic(ast.Mult(), value, result)
    return result


def as_einsum(low: Lowering, node: ast.expr, reduced: Sequence[Loop]) -> bool:
    """Whether :func:`contracted` has something to say about it."""
    return contracted(low, node, reduced) is not None


def _matmul(values: Sequence[Value], kept: Sequence[Loop], reduced: Sequence[Loop]) -> ast.expr | None:
    """``left @ right`` for one reduced loop and at most one kept loop of each operand's own."""
    if len(reduced) != 1:
        return None
    (inner,) = reduced
    shared = [loop for loop in kept if all(loop in value.axes for value in values)]
    if shared:
        return None
    own = [[loop for loop in value.axes if loop != inner] for value in values]
    if any(len(loops) > 1 or inner not in value.axes for loops, value in zip(own, values, strict=True)):
        return None
    first, second = values
    if own[0] and own[1] and list(kept).index(own[0][0]) > list(kept).index(own[1][0]):
        first, second = second, first
        own = own[::-1]
    if not own[0] and own[1]:
        first, second = second, first
        own = own[::-1]
    left = first.node if first.axes[-1] is inner else _transposed(first.node)
    right = second.node if second.axes[0] is inner else _transposed(second.node)
    return ast.BinOp(left, ast.MatMult(), right)


def _transposed(node: ast.expr) -> ast.expr:
    """``x`` for ``x.T``, else ``node.T``."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    return nodes.attribute(node, "T")
