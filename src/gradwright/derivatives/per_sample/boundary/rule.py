"""What the samples share, and each sample's part of its gradient: one rule per kind of node.

NOTE [Boundary]: follow the batch from the losses back. An input that all samples share (a weight, a bias) enters at a
step whose output keeps them apart. There the cotangent g of the output holds, at sample b's place, what comes from
loss b and from no other. The backward of that step would sum over the samples; the rule does all of it but that sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place

#: From the cotangent of a step's output to the gradient of one shared input, sample by sample: [B, *input].
Make: TypeAlias = Callable[[Tensor], Tensor]

#: For a step whose output has its B samples at a place: how the gradient of input ``index`` is made, None where this
#: rule can't.  It answers before anything is computed.  What it gives needs no particular dtype: the driver casts.
Boundary: TypeAlias = Callable[[Step, int, Place, int], Make | None]


def apart(tensor: Tensor, place: Place, samples: int) -> Tensor:
    """The samples first: [*before, outer * B * inner, *after] as [B, *before, outer * inner, *after].

    >>> apart(torch.arange(6), Place(0, outer=2), 3).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    if place.plain:
        return tensor.movedim(place.axis, 0).unsqueeze(place.axis + 1)
    axis, inner = place.axis, place.inner
    split = tensor.reshape(*tensor.shape[:axis], place.outer, samples, inner, *tensor.shape[axis + 1 :])
    return split.movedim(axis + 1, 0).flatten(axis + 1, axis + 2)


def together(parts: Tensor, place: Place) -> Tensor:
    """The inverse of ``apart``.

    >>> together(torch.tensor([[0, 3], [1, 4], [2, 5]]), Place(0, outer=2)).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    axis = place.axis
    split = parts.reshape(*parts.shape[: axis + 1], place.outer, place.inner, *parts.shape[axis + 2 :])
    return split.movedim(0, axis + 1).flatten(axis, axis + 2)


def rows(matrix: Tensor, place: Place, samples: int) -> Tensor:
    """A matrix [N, F] with the batch along N, or [F, N] with it along N, as [B, N / B, F]."""
    parts = apart(matrix, place, samples)
    return parts if place.axis == 0 else parts.mT


def over_batch(step: Step, index: int, place: Place) -> bool:
    """Whether input ``index`` was broadcast over the batch (and over all that lies merged with it in one axis)."""
    out, into = step.shape(), step.inputs[index].shape
    axis = place.axis - len(out) + len(into)
    return axis < 0 or into[axis] == 1


def to_shared(cotangent: Tensor, place: Place, samples: int, shape: torch.Size) -> Tensor:
    """Transpose of broadcasting ``shape`` over the samples, all but the sum over them.  Result: [B, *shape].

    >>> to_shared(torch.ones(4, 2, 3), Place(0), 4, torch.Size([3])).tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0], [2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """
    parts = apart(cotangent, place, samples)
    gained = parts.ndim - 1 - len(shape)
    summed = [axis + 1 for axis, size in enumerate((1,) * gained + tuple(shape)) if size == 1 != parts.shape[axis + 1]]
    if summed:
        parts = parts.sum(summed, keepdim=True)
    return parts.reshape(samples, *shape)


def sample_numbers(place: Place, size: int, samples: int, device: torch.device) -> Tensor:
    """Which sample each of the ``size`` places along the batch's axis belongs to.

    >>> sample_numbers(Place(0, outer=2, inner=2), 12, 3, torch.device("cpu")).tolist()
    [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]
    """
    return torch.arange(size, device=device).div(place.inner, rounding_mode="floor") % samples


def scattered(cotangent: Tensor, places: tuple[Tensor, ...], shape: torch.Size, samples: int) -> Tensor:
    """Rows of ``cotangent`` added at (sample, *index) of zeros [B, *shape].  ``places[0]`` numbers the samples."""
    sizes = (samples, *shape[: len(places) - 1])
    flat = places[0]
    for index, size in zip(places[1:], sizes[1:], strict=True):
        flat = flat * size + torch.where(index < 0, index + size, index)
    tail = shape[len(places) - 1 :]
    zeros = cotangent.new_zeros(math.prod(sizes), *tail)
    found = flat.broadcast_to(cotangent.shape[: cotangent.ndim - len(tail)]).reshape(-1)
    return zeros.index_add(0, found, cotangent.reshape(-1, *tail)).reshape(samples, *shape)
