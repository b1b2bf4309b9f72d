"""Rows of a table that the samples look up: embeddings, and indexing of a parameter."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make, sample_numbers, scattered
from gradwright.ground.torch_versions.nodes import read_saved


def _along(place: Place, shape: torch.Size, samples: int, device: torch.device) -> Tensor:
    """The sample of every entry of an index of this shape."""
    numbers = sample_numbers(place, shape[place.axis], samples, device)
    return numbers.reshape(-1, *(1,) * (len(shape) - place.axis - 1)).expand(shape)


def _embedding(step: Step, index: int, place: Place, samples: int) -> Make | None:
    """out[i] = weight[ids[i]], with a cotangent for every row but ``padding_idx``.

    With scale_grad_by_freq a row's gradient is divided by how often the whole batch asked for it: left to one-hots.
    """
    node, out = step.node, step.shape()
    if read_saved(node, "scale_grad_by_freq") or place.axis >= len(out) - 1:
        return None

    def make(g: Tensor) -> Tensor:
        ids, padding = read_saved(node, "indices"), read_saved(node, "padding_idx")
        if padding in range(step.inputs[0].shape[0]):
            g = g.masked_fill((ids == padding).unsqueeze(-1), 0)
        return scattered(g, (_along(place, ids.shape, samples, g.device), ids), step.inputs[0].shape, samples)

    return make


def _index(step: Step, index: int, place: Place, samples: int) -> Make | None:
    """out = self[i, j, ...]: integer tensors for the first axes of self."""
    if index != 0:
        return None
    given = list(read_saved(step.node, "indices"))
    leading = [ids for ids in given if ids is not None]
    if (
        not leading
        or given[: len(leading)] != leading
        or any(ids.dtype not in (torch.int32, torch.int64) for ids in leading)
    ):
        return None
    gained = len(step.shape()) - (len(step.inputs[0].shape) - len(leading))
    shape = step.shape()[:gained]
    if place.axis >= len(shape):
        return None
    into = step.inputs[0].shape

    def make(g: Tensor) -> Tensor:
        numbers = _along(place, shape, samples, g.device)
        return scattered(g, (numbers, *(ids.broadcast_to(shape).long() for ids in leading)), into, samples)

    return make


def _index_select(step: Step, index: int, place: Place, samples: int) -> Make | None:
    """out = self.index_select(dim, ids), with the batch along dim."""
    node, into = step.node, step.inputs[0].shape
    dim = read_saved(node, "dim") if read_saved(node, "dim") < 2**63 else read_saved(node, "dim") - 2**64
    dim %= max(len(into), 1)
    if place.axis != dim or not into:
        return None
    turned = torch.Size([into[dim], *into[:dim], *into[dim + 1 :]])

    def make(g: Tensor) -> Tensor:
        numbers = sample_numbers(place, g.shape[dim], samples, g.device)
        return scattered(g.movedim(dim, 0), (numbers, read_saved(node, "index").long()), turned, samples).movedim(
            1, dim + 1
        )

    return make


BOUNDARIES: dict[str, Boundary] = {
    "EmbeddingBackward0": _embedding,
    "IndexBackward0": _index,
    "IndexSelectBackward0": _index_select,
}
