"""Sums, and what is expanded only to be multiplied or summed."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.graph import Graph, Node, map_nodes
from gradwright.functions.derive.simplify.algebra import is_number, operands
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.functions.derive.simplify.views import RESHAPES

aten = torch.ops.aten
POINTWISE = (aten.mul, aten.div, aten.add, aten.sub, aten.neg, aten.exp, aten.log, aten.sigmoid, aten.tanh, aten.sqrt,
             aten.rsqrt, aten.reciprocal, aten.sign, aten.abs, aten.cos, aten.sin)  # fmt: skip


def axes_of(node: Node) -> list[int] | None:
    """The axes of a sum; None if it isn't one."""
    if not node.is_a(aten.sum) or node.kwargs.get("dtype") is not None:
        return None
    rank = len(node.args[0].shape)
    given = node.args[1] if len(node.args) > 1 else None
    return [axis % rank for axis in given] if given else list(range(rank))


def keeps(node: Node) -> bool:
    return len(node.args) > 2 and bool(node.args[2])


def sum_then_reshape(node: Node, graph: Graph) -> Node | None:
    """sum(x, a, keepdim=True).reshape(...): the axes of one are left out at once, or were never kept."""
    if not node.is_a(*RESHAPES, aten.squeeze.dim, aten.squeeze.dims):
        return None
    inner = node.args[0]
    axes = axes_of(inner)
    if axes is None or not keeps(inner):
        return None
    rest = tuple(size for axis, size in enumerate(inner.shape) if axis not in axes)
    if rest != node.shape:
        return None
    return graph.make(aten.sum.dim_IntList, inner.args[0], inner.args[1])


def no_axes(node: Node, graph: Graph) -> Node | None:
    axes = axes_of(node)
    if axes is None:
        return None
    sizes = [node.args[0].shape[axis] for axis in axes]
    if (not axes or all(size == 1 for size in sizes)) and node.dtype == node.args[0].dtype:
        source = node.args[0]
        return node.first if source.shape == node.shape else graph.make(aten.view.default, source, list(node.shape))
    return None


def sum_of_expand(node: Node, graph: Graph) -> Node | None:
    """sum(expand(x), a) over an axis along which x has one entry: that entry, times the size."""
    axes = axes_of(node)
    if axes is None or not node.args[0].is_a(aten.expand) or not node.dtype.is_floating_point:
        return None
    expanded = node.args[0]
    source = expanded.args[0]
    lead = len(expanded.shape) - len(source.shape)
    counted: Any = sympy.Integer(1)
    for axis in axes:
        if axis >= lead and source.shape[axis - lead] != 1:
            return None
        if (axis >= lead and expanded.shape[axis] != 1) or axis < lead:
            counted = counted * expanded.shape[axis]
    target = [1 if axis in axes else size for axis, size in enumerate(expanded.shape)]
    kept = [size for axis, size in enumerate(target) if keeps(node) or axis not in axes]
    one = graph.make(aten.expand.default, source, target)
    if kept != target:
        one = graph.make(aten.view.default, one, kept)
    return graph.make(aten.mul.Tensor, one, int(counted) if counted.is_number else counted)


def pointwise_of_expand(node: Node, graph: Graph) -> Node | None:
    """f(expand(x), number): f is taken of fewer numbers if it comes first."""
    if not node.is_a(*POINTWISE) or node.kwargs:
        return None
    tensors = node.parents
    if len(tensors) != 1 or not tensors[0].is_a(aten.expand) or not isinstance(node.args[0], Node):
        return None
    if any(not is_number(arg) for arg in node.args[1:]):
        return None
    inner = graph.make(node.op, tensors[0].args[0], *node.args[1:])
    return graph.make(aten.expand.default, inner, tensors[0].args[1])


def broadcast_is_enough(node: Node, graph: Graph) -> Node | None:
    """expand(x) * y: where y has the whole shape, x broadcasts by itself."""
    if not (sides := operands(node, aten.mul, aten.div, aten.add, aten.sub)):
        return None
    for place, side in enumerate(sides):
        other = sides[1 - place]
        if isinstance(side, Node) and isinstance(other, Node) and side.is_a(aten.expand) and other.shape == node.shape:
            given = [*sides]
            given[place] = side.args[0]
            return graph.make(node.op, *given)
    return None


def expanded_together(node: Node, graph: Graph) -> Node | None:
    """expand(x) * expand(y), x and y of the same shape: one product, then expanded."""
    if not (sides := operands(node, aten.mul, aten.div, aten.add, aten.sub)):
        return None
    if all(isinstance(side, Node) and side.is_a(aten.expand) for side in sides):
        inner = graph.make(node.op, *map_nodes(sides, lambda side: side.args[0]))
        if inner.dtype == node.dtype and inner.shape == sides[0].args[0].shape:
            return graph.make(aten.expand.default, inner, sides[0].args[1])
    return None


RULES = [
    Rule("sum, then reshape", "the summed axis needn't be kept if it is dropped at once", sum_then_reshape),
    Rule("sum over nothing", "a sum over no axis, or over axes of one entry, is what it sums", no_axes),
    Rule("sum of expanded", "the sum of n equal numbers is n times one of them", sum_of_expand),
    Rule("pointwise after expand", "equal numbers in, equal numbers out: once is enough", pointwise_of_expand),
    Rule("expanded together", "equal numbers in, equal numbers out: once is enough", expanded_together),
    Rule("broadcasting is enough", "torch broadcasts the smaller side by itself", broadcast_is_enough),
]
