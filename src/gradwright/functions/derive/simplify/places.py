"""Gradients of parts of a tensor, put in their places: together, instead of each among zeros of its own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.algebra import ZEROS, operands
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.ground.torch_versions.operators import packets_named

aten = torch.ops.aten
MOST_TERMS = 32  # of one sum


@dataclass(frozen=True)
class Piece:
    """``values`` from ``start`` to ``end`` along an axis of a tensor of ``shape``, zeros elsewhere. Where an end is out
    of range, both are as they were given, for torch to clamp."""

    values: Node
    shape: tuple[Any, ...]
    axis: int
    start: Any
    end: Any

    @property
    def in_range(self) -> bool:
        return bool(self.values.shape[self.axis] == self.end - self.start)


def from_start(place: Any, size: Any) -> Any:
    """A place that may count from the end, or be torch's for the end itself, counted from the start."""
    if isinstance(place, int):
        if place >= 2**62:
            return size
        return place if place >= 0 else size + place
    return place


def piece_of(node: Node, graph: Graph) -> Piece | None:
    if node.is_a(aten.slice_backward) and node.args[5] == 1:
        values, shape, axis, start, end, _ = node.args
        axis %= len(shape)
        piece = Piece(values, node.shape, axis, *(from_start(place, node.shape[axis]) for place in (start, end)))
        return piece if piece.in_range else Piece(values, node.shape, axis, start, end)
    if node.is_a(aten.select_backward) and isinstance(node.args[3], int):
        values, shape, axis, index = node.args
        axis %= len(shape)
        start = from_start(index, node.shape[axis])
        return Piece(graph.make(aten.unsqueeze.default, values, axis), node.shape, axis, start, start + 1)
    return None


def terms_of(node: Node) -> list[Node]:
    """What a sum of sums adds up."""
    sides = operands(node, aten.add.Tensor)
    if sides is None or not all(isinstance(side, Node) and side.shape == node.shape for side in sides):
        return [node]
    return [term for side in sides for term in terms_of(side)]


def put_together(node: Node, graph: Graph) -> Node | None:
    """A sum of gradients of the same part, or of parts that meet: the parts are added or joined first."""
    terms = terms_of(node)
    if not 1 < len(terms) <= MOST_TERMS:
        return None
    pieces = {place: piece for place, term in enumerate(terms) if (piece := piece_of(term, graph)) is not None}
    pairs = [*combinations(pieces.items(), 2)]
    same = [pair for pair in pairs if _place(pair[0][1]) == _place(pair[1][1])]
    columns = sum(map(_is_column, pieces.values()))
    for (one, left), (other, right) in [*same, *pairs]:
        if columns == 2 and _is_column(left) and _is_column(right) and _place(left) != _place(right):
            continue  # joined entry by entry; two of them are put among zeros in less time
        joined = _joined(left, right, graph) or _joined(right, left, graph)
        if joined is None:
            continue
        rest = [term for place, term in enumerate(terms) if place not in (one, other)]
        found = _placed(joined, graph)
        for term in rest:
            found = graph.make(aten.add.Tensor, found, term)
        return found
    return None


def _is_column(piece: Piece) -> bool:
    """One entry of each row, of rows that may be longer than all of these entries together?"""
    return (
        piece.axis == len(piece.shape) - 1
        and piece.end == piece.start + 1
        and not isinstance(piece.shape[piece.axis], int)
    )


def _place(piece: Piece) -> tuple[Any, ...]:
    return piece.axis, piece.start, piece.end


def _joined(left: Piece, right: Piece, graph: Graph) -> Piece | None:
    if left.axis != right.axis or left.values.dtype != right.values.dtype:
        return None
    if _place(left) == _place(right):
        values = graph.make(aten.add.Tensor, left.values, right.values)
        return Piece(values, left.shape, left.axis, left.start, left.end)
    if left.end == right.start and left.in_range and right.in_range:
        values = graph.make(aten.cat.default, [left.values, right.values], left.axis)
        return Piece(values, left.shape, left.axis, left.start, right.end)
    return None


def _placed(piece: Piece, graph: Graph) -> Node:
    if piece.values.shape == piece.shape and piece.in_range:
        return piece.values
    return graph.make(
        aten.slice_backward.default, piece.values, list(piece.shape), piece.axis, piece.start, piece.end, 1
    )


def cat_of_cat(node: Node, graph: Graph) -> Node | None:
    """cat((cat((a, b)), c)) is cat((a, b, c)), and a stack is a cat too."""
    if not node.is_a(aten.cat):
        return None
    axis = _axis(node)
    parts: list[Node] = []
    for part in node.args[0]:
        if part.is_a(aten.cat) and _axis(part) == axis:
            parts += part.args[0]
        elif part.is_a(aten.stack) and _axis(part) == axis:
            parts += [graph.make(aten.unsqueeze.default, row, axis) for row in part.args[0]]
        else:
            parts.append(part)
    return graph.make(aten.cat.default, parts, axis) if len(parts) > len(node.args[0]) else None


def cat_of_columns(node: Node, graph: Graph) -> Node | None:
    """cat of unsqueezed tensors along the new axis: stack."""
    if not node.is_a(aten.cat):
        return None
    axis, parts = _axis(node), node.args[0]
    rank = len(node.shape)
    if all(part.is_a(aten.unsqueeze) and part.args[1] % rank == axis for part in parts):
        return graph.make(aten.stack.default, [part.args[0] for part in parts], axis)
    return None


def _axis(node: Node) -> int:
    axis: int = node.args[1] if len(node.args) > 1 else 0
    return axis % len(node.shape)


def cut_by_pad(node: Node, graph: Graph) -> Node | None:
    """A pad that only takes away is a slice, which copies nothing."""
    if not node.is_a(aten.constant_pad_nd):
        return None
    pads = node.args[1]
    if not all(isinstance(size, int) and size <= 0 for size in pads):
        return None
    found: Node = node.args[0]
    for place in range(len(pads) // 2):
        axis = len(node.shape) - 1 - place
        before, after = -pads[2 * place], -pads[2 * place + 1]
        if before or after:
            found = graph.make(aten.slice.Tensor, found, axis, before, found.shape[axis] - after)
    return found


_WRITES = (aten.scatter_add, aten.index_add, aten.index_put, *packets_named("_unsafe_index_put"))


def added_by_index(node: Node, graph: Graph) -> Node | None:
    """x + (zeros, with g added at indices): g added to x."""
    sides = operands(node, aten.add.Tensor)
    if sides is None or not all(isinstance(side, Node) and side.shape == node.shape for side in sides):
        return None
    for one, other in (sides, sides[::-1]):
        if not one.is_a(*_WRITES) or one.is_leaf:
            continue
        into, *rest = one.args
        adds = one.is_a(aten.scatter_add, aten.index_add) or (len(one.args) > 3 and bool(one.args[3]))
        if adds and not one.kwargs and into.is_a(*ZEROS):
            return graph.make(one.op, other, *rest)
    return None


RULES = [
    Rule("put together", "parts that meet are joined first, and put among zeros once", put_together),
    Rule("joined twice", "joined once: one copy fewer", cat_of_cat),
    Rule("joined columns", "stack joins along a new axis", cat_of_columns),
    Rule("pad that cuts", "a slice copies nothing", cut_by_pad),
    Rule("added by index", "nothing has to be filled with zeros and added", added_by_index),
]
