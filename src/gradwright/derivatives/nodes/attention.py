"""Scaled dot product attention as one node: softmax(scale Q K^T + mask) V.

The kernels that make these nodes have no second derivative that autograd records. Samples and heads are loops of the
kernel, and so are the rows of the queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import bilinear, plus, scaled
from gradwright.derivatives.nodes.reach import broadcast_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.derivatives.nodes.softmaxes import softmax_jet
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved
from gradwright.ground.torch_versions.tensors import safe_softmax


def _batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    found: list[Place | None] = []
    for index, into in enumerate(step.inputs):
        known = index < 3 if place.axis < 2 else place.axis == 2 and index == 0
        keeps = known and into.leads and into.shape[place.axis] == step.shape()[place.axis]
        found.append(place if keeps else None)
    return found


def _weights(step: Step) -> tuple[Tensor, float]:
    node = step.node
    query, key = read_saved(node, "query"), read_saved(node, "key")
    scale = 1 / math.sqrt(query.shape[-1]) if read_saved(node, "scale") is None else float(read_saved(node, "scale"))
    scores = query @ key.transpose(-1, -2) * scale
    if read_saved(node, "attn_mask") is not None:
        scores = scores + read_saved(node, "attn_mask")
    if read_saved(node, "is_causal"):
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, -torch.inf)
    return safe_softmax(scores, -1), scale


def _push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node = step.node
    weights, scale = _weights(step)
    query, key, value = jets
    made: Jet | None = None
    if query is not None or key is not None:
        pair = read_saved(node, "query"), read_saved(node, "key")
        scores = bilinear(_rows_by_rows, _rows_by_rows_summed, pair, (query, key), order)
        made = softmax_jet(weights, scaled(scores, scale), -1, order)
    return {0: plus(bilinear(torch.matmul, _matmul_summed, (weights, read_saved(node, "value")), (made, value), order))}


def _rows_by_rows(left: Tensor, right: Tensor) -> Tensor:
    return left @ right.transpose(-1, -2)


def _rows_by_rows_summed(left: Tensor, right: Tensor) -> Tensor:
    return _rows_by_rows(left, right).sum(0)


def _matmul_summed(left: Tensor, right: Tensor) -> Tensor:
    return (left @ right).sum(0)


def _pushes(step: Step, order: int) -> bool:
    return bool(read_saved(step.node, "dropout_p") == 0)


def _spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    # a query's row is made of its own row and of every row of keys and values, within a head
    shape = step.shape()
    query, key, value = (into for into in reach[:3])
    if any(into is not None for into in reach[3:]):
        return {}
    directions = next(len(into) for into in reach if into is not None)
    seen = torch.zeros((), dtype=torch.bool, device=output_metadata(step.node)[0].device)
    if query is not None:
        seen = seen | query.any(-1, keepdim=True)
    if key is not None:
        if key.shape[2] != shape[1]:
            return {}
        seen = seen | key.flatten(3).any(-1)[..., None, None]
    if value is not None:
        if value.shape[2] != shape[1]:
            return {}
        seen = seen | value.any(-2, keepdim=True)
    return {0: broadcast_reach(seen, shape).expand(directions, *shape)}


_fused = Rule(_batch, None, _spread)

RULES = {
    "ScaledDotProductFlashAttentionForCpuBackward0": Rule(_batch, _push, _spread, pushes=_pushes),
    "ScaledDotProductFlashAttentionBackward0": _fused,
    "ScaledDotProductEfficientAttentionBackward0": _fused,
    "ScaledDotProductCudnnAttentionBackward0": _fused,
}
