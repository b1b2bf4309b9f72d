"""Copies that nobody writes to: the graph has no in-place operation, so a copy is its original."""

from __future__ import annotations

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.functions.derive.sizes import expression_of

aten = torch.ops.aten


def copy(node: Node, graph: Graph) -> Node | None:
    if node.is_a(aten.alias, aten.lift_fresh, aten.lift_fresh_copy):
        return node.first
    if node.is_a(aten.clone) and same_strides(node, node.args[0]):
        return node.first
    return None


def same_strides(one: Node, other: Node) -> bool:
    """Do both lie in memory alike? A copy into another layout is work that autograd does once, and keeps."""
    return [expression_of(s) for s in one.value.stride()] == [expression_of(s) for s in other.value.stride()]


def same_dtype(node: Node, graph: Graph) -> Node | None:
    changes = {key for key, value in node.kwargs.items() if value is not None}
    if node.is_a(aten._to_copy) and changes <= {"dtype", "device", "layout"}:
        source = node.args[0]
        if node.dtype == source.dtype and node.value.device == source.value.device:
            return node.first
    return None


RULES = [
    Rule("copy", "nothing is changed in place, so the original will do", copy),
    Rule("same dtype", "a conversion to the dtype there is", same_dtype),
]
