"""Scale and shift of normalisations: y = weight * xhat + bias, with xhat = (x - mean) / deviation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.rule import Place
from gradwright.derivatives.per_sample.boundary.rule import Boundary, Make, apart, to_shared
from gradwright.ground.torch_versions.nodes import read_saved

# NOTE [Saved statistics]: mean and 1 / deviation are saved as numbers: autograd keeps no way from them back to x.
# Where a graph is to be made they are computed from x again, with values that agree and derivatives that are right:
# eps, which a layer norm does not save, is what 1 / rstd^2 has more than the variance.


def _normalised(x: Tensor, axes: tuple[int, ...], mean: Tensor, rstd: Tensor) -> Tensor:
    """xhat along ``axes``; ``mean`` and ``rstd`` broadcast over them.  NOTE [Saved statistics]."""
    if not torch.is_grad_enabled() or not x.requires_grad:
        return (x - mean.detach()) * rstd.detach()
    spread = x - x.mean(axes, keepdim=True)
    variance = spread.square().mean(axes, keepdim=True)
    return spread * torch.rsqrt(rstd.detach() ** -2 + (variance - variance.detach()))


def _layer_norm(step: Step, index: int, place: Place, samples: int) -> Make | None:
    node, out = step.node, step.shape()
    normalised = len(read_saved(node, "normalized_shape"))
    if place.axis >= len(out) - normalised:
        return None
    shape = step.inputs[index].shape
    axes = tuple(range(-normalised, 0))

    def weight(g: Tensor) -> Tensor:
        xhat = _normalised(read_saved(node, "input"), axes, read_saved(node, "result1"), read_saved(node, "result2"))
        return to_shared(g * xhat, place, samples, shape)

    return weight if index == 1 else lambda g: to_shared(g, place, samples, shape)


def _per_channel(xhat: Callable[[Step], Tensor]) -> Boundary:
    """[N, C, ...] with a weight and a bias for each of the C channels."""

    def boundary(step: Step, index: int, place: Place, samples: int) -> Make | None:
        if index not in (1, 2) or place.axis != 0:
            return None

        def make(g: Tensor) -> Tensor:
            marked = g * xhat(step).reshape(g.shape) if index == 1 else g
            summed = marked.flatten(2).sum(2) if marked.ndim > 2 else marked
            return apart(summed, place, samples).sum(1)

        return make

    return boundary


def _of_group_norm(step: Step) -> Tensor:
    node = step.node
    x = read_saved(node, "input")
    grouped = x.reshape(read_saved(node, "N"), read_saved(node, "group"), -1)
    return _normalised(
        grouped, (2,), read_saved(node, "result1").unsqueeze(2), read_saved(node, "result2").unsqueeze(2)
    )


def _of_batch_norm(step: Step) -> Tensor:
    """In training the statistics are the batch's, which makes its input the samples' meeting place, not its weight."""
    node = step.node
    x = read_saved(node, "input")
    channels = (1, -1, *(1,) * (x.ndim - 2))
    if read_saved(node, "training"):
        axes = (0, *range(2, x.ndim))
        return _normalised(
            x, axes, read_saved(node, "result1").reshape(channels), read_saved(node, "result2").reshape(channels)
        )
    rstd: Tensor = torch.rsqrt(read_saved(node, "running_var") + read_saved(node, "eps")).reshape(channels)
    centred: Tensor = x - read_saved(node, "running_mean").reshape(channels)
    return centred * rstd


BOUNDARIES: dict[str, Boundary] = {
    "NativeLayerNormBackward0": _layer_norm,
    "NativeGroupNormBackward0": _per_channel(_of_group_norm),
    "NativeBatchNormBackward0": _per_channel(_of_batch_norm),
}
