"""Arithmetic that does nothing, or does the same with less."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.rewriting import Rule

aten = torch.ops.aten
ZEROS = (aten.zeros_like, aten.zeros, aten.new_zeros)
PLACING = (aten.slice_backward, aten.select_backward, aten.unsqueeze, aten.flip)


def operands(node: Node, *ops: Any) -> tuple[Any, Any] | None:
    """The two sides of a plain binary call: without alpha, rounding mode or other options."""
    if node.is_a(*ops) and len(node.args) == 2 and not node.kwargs:
        return node.args[0], node.args[1]
    return None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, sympy.Basic)) and not isinstance(value, bool)


def neutral(node: Node, graph: Graph) -> Node | None:
    for ops, one in (((aten.mul, aten.div, aten.pow), 1), ((aten.add, aten.sub), 0)):
        if (sides := operands(node, *ops)) and isinstance(sides[0], Node) and not isinstance(sides[1], Node):
            return node.first if sides[1] == one else None
    return None


def square(node: Node, graph: Graph) -> Node | None:
    sides = operands(node, aten.pow.Tensor_Scalar)
    return graph.make(aten.mul.Tensor, sides[0], sides[0]) if sides and sides[1] == 2 else None


def negative_number(node: Node, graph: Graph) -> Node | None:
    sides = operands(node, aten.add, aten.sub)
    if sides and isinstance(sides[0], Node) and isinstance(sides[1], (int, float)) and sides[1] < 0:
        other = aten.sub.Tensor if node.is_a(aten.add) else aten.add.Tensor
        return graph.make(other, sides[0], -sides[1])
    return None


def double_negation(node: Node, graph: Graph) -> Node | None:
    return node.first.first if node.is_a(aten.neg) and node.args[0].is_a(aten.neg) else None


def minus_one(node: Node, graph: Graph) -> Node | None:
    sides = operands(node, aten.mul, aten.div)
    if sides and not isinstance(sides[1], Node) and sides[1] == -1:
        return graph.make(aten.neg.default, sides[0])
    return None


def sign_outward(node: Node, graph: Graph) -> Node | None:
    if not (sides := operands(node, aten.mul, aten.div)):
        return None
    for place, side in enumerate(sides):
        if isinstance(side, Node) and side.is_a(aten.neg) and not side.dtype.is_complex:
            inner = [*sides]
            inner[place] = side.args[0]
            if isinstance(sides[1], (int, float)):
                return graph.make(node.op, inner[0], -sides[1])
            return graph.make(aten.neg.default, graph.make(node.op, *inner))
    return None


def sign_of_linear(node: Node, graph: Graph) -> Node | None:
    """f(-x) is -f(x), where f sums, or puts x in its place."""
    if node.is_a(aten.sum, *PLACING) and node.args[0].is_a(aten.neg):
        return graph.make(aten.neg.default, graph.make(node.op, node.args[0].args[0], *node.args[1:], **node.kwargs))
    return None


def add_negative(node: Node, graph: Graph) -> Node | None:
    if (sides := operands(node, aten.add.Tensor)) and all(isinstance(side, Node) for side in sides):
        if sides[1].is_a(aten.neg):
            return graph.make(aten.sub.Tensor, sides[0], sides[1].args[0])
        if sides[0].is_a(aten.neg):
            return graph.make(aten.sub.Tensor, sides[1], sides[0].args[0])
    if (sides := operands(node, aten.sub.Tensor)) and isinstance(sides[1], Node) and sides[1].is_a(aten.neg):
        return graph.make(aten.add.Tensor, sides[0], sides[1].args[0])
    return None


def factors(node: Node, graph: Graph) -> Node | None:
    sides = operands(node, aten.mul)
    if sides and isinstance(sides[1], (int, float)) and sides[0].dtype.is_floating_point:
        inner = operands(sides[0], aten.mul)
        if inner and isinstance(inner[1], (int, float)):
            return graph.make(node.op, inner[0], inner[1] * sides[1])
    return None


def filled(node: Any) -> float | None:
    """The number that a tensor is filled with: zeros_like, ones_like, full_like."""
    if not isinstance(node, Node) or node.is_leaf or isinstance(node.op, str):
        return None
    if node.is_a(*ZEROS):
        return 0
    if node.is_a(aten.ones_like, aten.ones, aten.new_ones):
        return 1
    if node.is_a(aten.full_like, aten.full, aten.new_full) and isinstance(node.args[1], (int, float)):
        return float(node.args[1])
    return None


def where_constant(node: Node, graph: Graph) -> Node | None:
    if not node.is_a(aten.where.self):
        return None
    mask, *branches = node.args
    for place, branch in enumerate(branches):
        value = filled(branch)
        if value is not None and len(branch.shape):
            number = graph.make(aten.scalar_tensor.default, value, dtype=branch.dtype, device=branch.value.device)
            given = [*branches]
            given[place] = number
            return graph.make(aten.where.self, mask, *given)
    return None


def times_reciprocal(node: Node, graph: Graph) -> Node | None:
    if (sides := operands(node, aten.mul.Tensor)) and all(isinstance(side, Node) for side in sides):
        for one, other in (sides, sides[::-1]):
            if other.is_a(aten.reciprocal) and one is not other:
                return graph.make(aten.div.Tensor, one, other.args[0])
    return None


def zero_sum(node: Node, graph: Graph) -> Node | None:
    sides = operands(node, aten.add.Tensor)
    if sides and all(isinstance(side, Node) for side in sides):
        for one, other in (sides, sides[::-1]):
            if one.is_a(*ZEROS):
                found: Node = other
                return found
    return None


RULES = [
    Rule("neutral element", "x * 1, x / 1, x + 0, x - 0 and x ** 1 are x", neutral),
    Rule("square", "x ** 2 is x * x, bit for bit, without a call of pow", square),
    Rule("negative number", "x + (-1) is x - 1, bit for bit, and reads better", negative_number),
    Rule("double negation", "-(-x) is x, bit for bit", double_negation),
    Rule("minus one", "x * -1 is -x, bit for bit", minus_one),
    Rule("sign outward", "(-a) * b is -(a * b), bit for bit: a sign further out meets a sum, where it costs nothing",
         sign_outward),
    Rule("sign of a linear", "a sign further out is taken of fewer numbers, or meets a sum, where it costs nothing",
         sign_of_linear),
    Rule("add a negative", "a + (-b) is a - b, bit for bit: one pass fewer", add_negative),
    Rule("factors", "(x * 2) * 3 is x * 6 but for a rounding: one pass fewer", factors),
    Rule("constant branch", "where takes a number: nothing has to be filled with it", where_constant),
    Rule("times reciprocal", "a * (1 / b) is a / b but for a rounding: one pass fewer", times_reciprocal),
    Rule("zero added", "x + 0 is x: one pass fewer", zero_sum),
]  # fmt: skip
