"""Views of views, and views that show what there was."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.algebra import ZEROS
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.ground.torch_versions.operators import packets_named

aten = torch.ops.aten
RESHAPES = (aten.view, aten.reshape, *packets_named("_unsafe_view", "_reshape_alias"))


def same_shape(node: Node, graph: Graph) -> Node | None:
    if node.is_a(*RESHAPES, aten.expand) and node.shape == node.args[0].shape:
        return node.first
    return None


def of_reshape(node: Node, graph: Graph) -> Node | None:
    inner = node.args[0] if node.is_a(*RESHAPES) else None
    if inner is not None and inner.is_a(*RESHAPES, aten.unsqueeze, aten.squeeze):
        return graph.make(aten.view.default, inner.args[0], node.args[1])
    return None


def of_expand(node: Node, graph: Graph) -> Node | None:
    if node.is_a(aten.expand) and node.args[0].is_a(aten.expand):
        return graph.make(aten.expand.default, node.args[0].args[0], node.args[1])
    return None


def order_of(node: Node) -> tuple[Node, list[int]] | None:
    """A permutation as its tensor and the order of its axes."""
    if node.is_a(aten.t):
        return node.args[0], [1, 0] if len(node.shape) == 2 else list(range(len(node.shape)))
    if node.is_a(aten.permute):
        return node.args[0], [axis % len(node.shape) for axis in node.args[1]]
    if node.is_a(aten.transpose) and len(node.shape):
        one, other = (axis % len(node.shape) for axis in node.args[1:3])
        order = list(range(len(node.shape)))
        order[one], order[other] = other, one
        return node.args[0], order
    return None


def permutations(node: Node, graph: Graph) -> Node | None:
    outer = order_of(node)
    inner = order_of(outer[0]) if outer else None
    if outer is None or inner is None:
        return None
    source: Node = inner[0]
    order = [inner[1][axis] for axis in outer[1]]
    if order == sorted(order):
        return source
    moved = [axis for axis, place in enumerate(order) if axis != place]
    if len(moved) == 2:
        return graph.make(aten.transpose.int, source, *moved)
    return graph.make(aten.permute.default, source, order)


def unsqueeze_squeeze(node: Node, graph: Graph) -> Node | None:
    """squeeze(unsqueeze(x, a), a) and unsqueeze(squeeze(x, a), a), where the axis is one that was there."""
    inner = node.args[0] if node.is_a(aten.squeeze.dim, aten.squeeze.dims) else None
    if inner is not None and inner.is_a(aten.unsqueeze) and inner.args[0].shape == node.shape:
        axes = node.args[1] if isinstance(node.args[1], list) else [node.args[1]]
        rank = len(inner.shape)
        source: Node = inner.args[0]
        if [axis % rank for axis in axes] == [inner.args[1] % rank]:
            return source
    return None


def view_of_one(node: Node, graph: Graph) -> Node | None:
    """Any view of one number expanded is that number expanded."""
    if node.is_a(
        *RESHAPES, aten.unsqueeze, aten.squeeze, aten.t, aten.transpose, aten.permute, aten.select, aten.slice
    ):
        inner = node.args[0]
        if inner.is_a(aten.expand) and not inner.args[0].shape:
            return graph.make(aten.expand.default, inner.args[0], list(node.shape))
    return None


def whole_slice(node: Node, graph: Graph) -> Node | None:
    if node.is_a(aten.slice) and node.shape == node.args[0].shape and _step(node) == 1:
        return node.first if _is_whole(node, node.args[1:4]) else None
    return None


def whole_scatter(node: Node, graph: Graph) -> Node | None:
    """Writing to a slice of everything: what is written."""
    found: Node
    if node.is_a(aten.slice_scatter) and node.args[1].shape == node.shape:
        found = node.args[1]
        return found if _is_whole(node, node.args[2:5]) else None
    if node.is_a(aten.slice_backward) and node.args[0].shape == node.shape and node.args[5] == 1:
        return node.first if _is_whole(node, node.args[2:5]) else None
    return None


def _is_whole(node: Node, given: tuple[Any, ...]) -> bool:
    """Is a slice (axis, start, end) that keeps the size here whole at any size? x[:] is, x[:9] is not."""
    absent: tuple[Any, ...] = (0, None, None)
    axis, start, end = (*given, *absent[len(given) :])
    size = node.shape[axis]
    if isinstance(size, int):
        return True
    return start in (0, None) and (end is None or end == size or (isinstance(end, int) and end >= 2**62))


def moved_zeros(node: Node, graph: Graph) -> Node | None:
    """Zeros, put in another place."""
    moving = (aten.select_backward, aten.slice_backward, aten.diagonal_backward, *RESHAPES, aten.expand, aten.unsqueeze,
              aten.squeeze, aten.permute, aten.transpose, aten.t, aten.select, aten.slice)  # fmt: skip
    if node.is_a(*moving) and node.args[0].is_a(*ZEROS):
        return graph.make(aten.zeros.default, list(node.shape), dtype=node.dtype, device=node.value.device)
    return None


def _step(node: Node) -> Any:
    return node.args[4] if len(node.args) > 4 else 1


RULES = [
    Rule("same shape", "reshaping or expanding to the shape there is changes nothing", same_shape),
    Rule("reshape of reshape", "only the last shape counts", of_reshape),
    Rule("expand of expand", "only the last shape counts", of_expand),
    Rule("permutations", "two orders of axes are one; there and back is none", permutations),
    Rule("unsqueeze and squeeze", "an axis put in and taken out again", unsqueeze_squeeze),
    Rule("view of one number", "equal numbers look the same in any order", view_of_one),
    Rule("written everywhere", "nothing of what was there is left", whole_scatter),
    Rule("zeros moved", "zeros are zeros in any order", moved_zeros),
    Rule("whole slice", "a slice of everything is everything", whole_slice),
]
