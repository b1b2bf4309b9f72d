"""Formulas of autograd's with passes over memory that a narrower tensor, or a shared factor, makes unnecessary."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.algebra import operands
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.functions.derive.simplify.views import RESHAPES

aten = torch.ops.aten


def _is_norm_of(node: Node, vector: Node) -> bool:
    """Is it a norm of the tensor, its axis kept or put back?"""
    while node.is_a(aten.unsqueeze, *RESHAPES):
        node = node.first
    return node.is_a(aten.linalg_vector_norm) and node.args[0] is vector


def _direction(node: Any) -> tuple[Node, Node, Node] | None:
    """Tensor, norm and mask of (x / norm).masked_fill(norm == 0, 0), norm being one of x."""
    if not isinstance(node, Node) or not node.is_a(aten.masked_fill.Scalar) or node.args[2] != 0:
        return None
    quotient, mask = node.args[:2]
    sides, test = operands(quotient, aten.div.Tensor), operands(mask, aten.eq.Scalar)
    if sides is None or test is None or test[1] != 0 or test[0] is not sides[1]:
        return None
    vector, norm = sides
    if not isinstance(norm, Node) or norm.shape == vector.shape or not _is_norm_of(norm, vector):
        return None
    return vector, norm, mask


def along_direction(node: Node, graph: Graph) -> Node | None:
    """c * (x / norm, or 0 where the norm is 0): x * (c / norm, or 0). Where the norm is 0, x is 0 too."""
    if (sides := operands(node, aten.mul.Tensor)) is None:
        return None
    for one, other in (sides, sides[::-1]):
        found = _direction(other)
        if found is not None and isinstance(one, Node) and one.shape == found[1].shape:
            vector, norm, mask = found
            factor = graph.make(aten.masked_fill.Scalar, graph.make(aten.div.Tensor, one, norm), mask, 0)
            return graph.make(aten.mul.Tensor, factor, vector)
    return None


def both_gates(node: Node, graph: Graph) -> Node | None:
    """Gradients through sigmoid(x) and through sigmoid(-x) have the same factor, their product."""
    for op in (aten.add.Tensor, aten.sub.Tensor):
        sides = operands(node, op)
        if sides is None or not all(isinstance(side, Node) and side.is_a(aten.sigmoid_backward) for side in sides):
            continue
        (one, gate), (other, counter) = sides[0].args, sides[1].args
        if not (gate.is_a(aten.sigmoid) and counter.is_a(aten.sigmoid)) or one.shape != other.shape:
            continue
        if _are_opposite(gate.args[0], counter.args[0]):
            whole = graph.make(op, one, other)
            return graph.make(aten.mul.Tensor, whole, graph.make(aten.mul.Tensor, gate, counter))
    return None


def _are_opposite(one: Node, other: Node) -> bool:
    if one.is_a(aten.neg):
        return one.args[0] is other
    return other.is_a(aten.neg) and other.args[0] is one


RULES = [
    Rule("along a direction", "the factor is as narrow as the norm: one pass over x instead of four", along_direction),
    Rule("both gates", "s(x) * s(-x) is the factor of both: one pass fewer, and no digit is lost", both_gates),
]
