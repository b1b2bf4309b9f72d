"""a * b + c in one pass over memory: ``torch.addcmul(c, a, b)``, where the product is read nowhere else;
``torch.add(c, a, alpha=2)``, where b is a number. And a sign goes to the smaller side of a product.

The last step before the text is written: it costs a little readability, and in a backward made of such sums it is the
difference between autograd's time and less.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.algebra import operands
from gradwright.functions.derive.simplify.rewriting import Rule, rewrite

aten = torch.ops.aten
DTYPES = (torch.float32, torch.float64)


def fuse(graph: Graph) -> None:
    """Fuse products into sums, in the backward alone: the forward stays as it was written."""
    while _fused(graph):
        pass


def _fused(graph: Graph) -> bool:
    """One pass over the graph; what has changed is looked at again in the next."""
    uses: Counter[Node] = Counter(parent for node in graph.nodes() for parent in node.parents)
    uses.update(graph.results)
    backward = graph.of_cotangents()

    def product(node: Any, like: Node) -> tuple[Any, Any] | None:
        """The two sides of a product that may go into a sum."""
        if not isinstance(node, Node) or node not in backward or uses[node] != 1 or node.name:
            return None
        sides = operands(node, aten.mul.Tensor)
        if sides is None or not all(isinstance(side, Node) and side.dtype == like.dtype for side in sides):
            return None
        if not any(side.shape == like.shape for side in sides):
            return None
        # a number of the host is no operand of addcmul on a device; what comes of a cotangent lives where that does
        return sides if all(side.shape or side in backward for side in sides) else None

    def multiple(node: Any, like: Node) -> tuple[Node, float] | None:
        """A tensor, and the number that it is multiplied with before it goes into a sum."""
        if not isinstance(node, Node) or node not in backward or uses[node] != 1 or node.name:
            return None
        sides = operands(node, aten.mul.Tensor)
        if sides is None or not isinstance(sides[0], Node) or not isinstance(sides[1], (int, float)):
            return None
        return sides if sides[0].shape == like.shape and sides[0].dtype == like.dtype else None

    def apply(node: Node, graph: Graph) -> Node | None:
        if not node.is_tensor or node not in backward or node.dtype not in DTYPES or not node.shape:
            return None
        if (sides := operands(node, aten.add.Tensor)) and all(isinstance(side, Node) for side in sides):
            for one, other in (sides[::-1], sides):
                if other.shape == node.shape and other.dtype == node.dtype and (parts := product(one, node)):
                    return graph.make(aten.addcmul.default, other, *parts)
                if other.shape == node.shape and other.dtype == node.dtype and (part := multiple(one, node)):
                    return graph.make(aten.add.Tensor, other, part[0], alpha=part[1])
        if (sides := operands(node, aten.sub.Tensor)) and all(isinstance(side, Node) for side in sides):
            one, other = sides
            if one.shape == node.shape and one.dtype == node.dtype and (parts := product(other, node)):
                return graph.make(aten.addcmul.default, one, *parts, value=-1)
            if one.shape == node.shape and one.dtype == node.dtype and (part := multiple(other, node)):
                return graph.make(aten.add.Tensor, one, part[0], alpha=-part[1])
        if node.is_a(aten.neg) and (sides := operands(node.first, aten.mul.Tensor)) and uses[node.first] == 1:
            for one, other in (sides, sides[::-1]):
                if isinstance(one, Node) and isinstance(other, Node) and one.shape != node.shape == other.shape:
                    return graph.make(aten.mul.Tensor, graph.make(aten.neg.default, one), other)
        return None

    return bool(rewrite(graph, [Rule("fused", "a * b + c in one pass over memory", apply)], rounds=1))
