"""Sums of products over loops: a matrix product, a convolution or ``torch.einsum``, where broadcasting would make
something larger."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import replace

from gradwright.doctor.rewrite.loops import nodes
from gradwright.doctor.rewrite.loops.cells import einsum
from gradwright.doctor.rewrite.loops.convolution import convolved
from gradwright.doctor.rewrite.loops.ir import Loop
from gradwright.doctor.rewrite.loops.lowering import Lowering
from gradwright.doctor.rewrite.loops.value import Value, joined_axes

SMALL_PRODUCT = 1 << 22  # elements, 16 MiB of float32
_CELL = "xyzuvw"


def factors_of(node: ast.expr) -> list[ast.expr]:
    """``a * b * c`` as [a, b, c]; a square as its base twice."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return factors_of(node.left) + factors_of(node.right)
    return [node]


def contracted(low: Lowering, node: ast.expr, reduced: Sequence[Loop]) -> Value | None:
    """The sum of a product over ``reduced``, with its factors kept apart; None where plain array code is as good."""
    if (product := _summed(low, node)) is not None:
        return _with_cells(low, product, reduced)
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
    if len(inner) > 2:
        every = joined_axes(inner, low.order)
        if _is_small(low, every) and low.context.in_second_form("product"):
            return None  # multiplied in the loop's order: gradients are the loop's at infinity, too
        inner = _as_two(low, inner)
    axes = joined_axes(inner, low.order)
    if all(value.axes == axes for value in inner) and not (len(inner) == 2 and len(axes) == 1):
        return None  # nothing is made larger by multiplying first
    made = _matmul(inner, [loop for loop in axes if loop not in reduced], reduced)
    if made is None:
        result = convolved(low, inner, reduced) or _by_einsum(low, inner, reduced)
    else:
        result = _over(low, made, inner, [loop for loop in axes if loop not in reduced])
    if result is None:
        return None
    for value in outer:
        result = low.arithmetic(ast.Mult(), value, result)
    return result


def _as_two(low: Lowering, values: Sequence[Value]) -> list[Value]:
    """The factor over the most loops, and the product of the others: what is summed are whole products, so that an
    infinity does what it does in the loop. (``einsum`` of three multiplies by the third what it has summed before.)"""
    alone = max(values, key=lambda value: len(value.axes))
    first, *more = [value for value in values if value is not alone]
    for value in more:
        first = low.arithmetic(ast.Mult(), first, value)
    return [first, alone]


def _by_einsum(low: Lowering, values: Sequence[Value], reduced: Sequence[Loop], cells: str = "") -> Value | None:
    """``torch.einsum`` over the loops that both factors have; over the others of ``reduced`` its result is summed:
    ``einsum`` would sum the one factor before it multiplies."""
    shared = [loop for loop in reduced if all(loop in value.axes for value in values)]
    if not shared and not cells:
        return None
    kept = [loop for loop in joined_axes(values, low.order) if loop not in shared]
    result = _over(low, einsum(low, values, [cells] * len(values), kept, ""), values, kept)
    later = [index for index, loop in enumerate(kept) if loop in reduced]
    if not later:
        return result
    dims = nodes.constant(later[0]) if len(later) == 1 else ast.Tuple([*map(nodes.constant, later)], ast.Load())
    node = nodes.method(result.node, "sum", *([] if len(later) == len(kept) else [dims]))
    return replace(result, node=node, axes=tuple(loop for loop in kept if loop not in reduced))


def _over(low: Lowering, node: ast.expr, values: Sequence[Value], axes: Sequence[Loop]) -> Value:
    return replace(low.combined(node, values, values[0].dtype, cell=0), axes=tuple(axes))


def _summed(low: Lowering, node: ast.expr) -> ast.expr | None:
    """``a * b`` for ``(a * b).sum()`` or ``torch.sum(a * b)``."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    by_torch = low.context.frame.module_of(node.func) == "torch.sum"
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and not by_torch
    given = [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]
    product = given[0] if len(given) == 1 and (method or by_torch) else None
    return product if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) else None


def _with_cells(low: Lowering, product: ast.expr, reduced: Sequence[Loop]) -> Value | None:
    """The product of two over ``reduced`` and all axes of their cells."""
    values = [low.expression(part) for part in factors_of(product)]
    if len(values) != 2 or any(not value.cell or value.number or not value.floating for value in values):
        return None
    if values[0].cell != values[1].cell or values[0].dtype != values[1].dtype:
        return None
    axes = joined_axes(values, low.order)
    if not set(reduced) <= set(axes) or all(value.axes == axes for value in values):
        return None
    return convolved(low, values, reduced) or _by_einsum(low, values, reduced, _CELL[: values[0].cell])


def _is_small(low: Lowering, axes: Sequence[Loop]) -> bool:
    """Whether the whole product was small in the run: its second form writes it down."""
    rounds = [low.spans.rounds_seen(loop) for loop in axes]
    return math.prod(count for count in rounds if count is not None) <= SMALL_PRODUCT and None not in rounds


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
