"""Matrix products of flattened tensors, as the product the user wrote."""

from __future__ import annotations

from typing import Any

import torch

from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.simplify.rewriting import Rule
from gradwright.functions.derive.simplify.views import RESHAPES

aten = torch.ops.aten


def unflattened(node: Any) -> Node | None:
    """x of a reshape of x (a view, not a copy) that keeps the last axis."""
    if not isinstance(node, Node) or not node.is_a(*RESHAPES) or node.args[0].is_a(aten.clone):
        return None
    source: Node = node.args[0]
    return source if len(source.shape) > len(node.shape) and source.shape[-1] == node.shape[-1] else None


def flattened_rows(node: Node, graph: Graph) -> Node | None:
    """(x.reshape(-1, k) @ w).reshape(..., n) is x @ w."""
    inner = node.args[0] if node.is_a(*RESHAPES) else None
    if inner is None or not inner.is_a(aten.mm):
        return None
    source = unflattened(inner.args[0])
    if source is None or node.shape != (*source.shape[:-1], inner.shape[-1]):
        return None
    return graph.make(aten.matmul.default, source, inner.args[1])


def flattened_batch(node: Node, graph: Graph) -> Node | None:
    """bmm of two tensors whose leading axes were joined, joined axes parted again: the product of the two."""
    inner = node.args[0] if node.is_a(*RESHAPES) else None
    if inner is None or not inner.is_a(aten.bmm):
        return None
    one, other = (unflattened(arg) for arg in inner.args)
    if one is None or other is None or one.shape[:-2] != other.shape[:-2]:
        return None
    if one.shape[-2:] != inner.args[0].shape[-2:] or other.shape[-2:] != inner.args[1].shape[-2:]:
        return None
    if node.shape != (*one.shape[:-1], other.shape[-1]):
        return None
    return graph.make(aten.matmul.default, one, other)


RULES = [
    Rule("rows put together", "torch.matmul joins the leading axes itself, without a copy", flattened_rows),
    Rule("batches put together", "torch.matmul joins the leading axes itself, without a copy", flattened_batch),
]
