"""LayerNorm, GroupNorm, InstanceNorm, BatchNorm.

All but the last in evaluation are y = w h + b with h = (x - mean) r, r = 1 / sqrt(var + eps), over some axes. With
q = <h, x'> (a mean over those axes) and L x' = x' minus its mean:
    h'  = r (L x' - h q)
    h'' = r (L x'' - h <h, x''>) - r sum over directions of (2 q h' + h <h', L x'>)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import added, carried, moved, the_jet, the_reach
from gradwright.derivatives.nodes.reach import mixed_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def normalised_jet(x: Tensor, jet: Jet, axes: tuple[int, ...], rstd: Tensor, order: int) -> Jet:
    """The jet of h, normalised over ``axes`` (counted from the end); ``rstd`` is r, broadcast to x."""

    def mean(tensor: Tensor) -> Tensor:
        return tensor.mean(axes, keepdim=True)

    h = (x - mean(x)) * rstd
    apart = jet.first - mean(jet.first)
    pull = mean(h * apart)
    first = rstd * (apart - h * pull)
    if order == 1:
        return Jet(first)
    bent = -rstd * (2 * (pull * first).sum(0) + h * mean((first * apart).sum(0)))
    if jet.second is None:
        return Jet(first, bent)
    swing = jet.second - mean(jet.second)
    return Jet(first, added(rstd * (swing - h * mean(h * swing)), bent))


def _only_input(step: Step, order: int) -> bool:
    return not any(place for place, _ in step.leading)


def _weighted(jet: Jet, weight: Tensor | None) -> Jet:
    return jet if weight is None else carried(jet, lambda stack: stack * weight)


def _layer_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # each slice over the trailing axes is normalised alone; weight and bias belong to all of them
    outside = place.axis < len(step.shape()) - len(read_saved(step.node, "normalized_shape"))
    return [place if outside else None, None, None]


def _layer_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node = step.node
    x = read_saved(node, "input")
    axes = tuple(range(-len(read_saved(node, "normalized_shape")), 0))
    rstd = _attached_rstd(x.var(axes, correction=0, keepdim=True), read_saved(node, "result2"))
    return {0: _weighted(normalised_jet(x, the_jet(jets), axes, rstd, order), read_saved(node, "weight"))}


def _attached_rstd(variance: Tensor, saved: Tensor) -> Tensor:
    """``saved`` is r = (variance + eps)^(-1/2), cut from the graph, and eps is not saved (by a group norm: not since
    torch 2.14). Eps is what r and the variance leave, and r is made anew from the variance, so that it depends on x."""
    rstd = saved.detach().to(variance.dtype).reshape(variance.shape)
    return (variance + (rstd.pow(-2) - variance.detach())).rsqrt() if variance.requires_grad else rstd


def _layer_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    return {0: mixed_reach(the_reach(reach), range(-len(read_saved(step.node, "normalized_shape")), 0))}


def _group_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return [place if place.axis == 0 and number == 0 else None, None, None]


def _group_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node, shape = step.node, step.shape()
    groups = read_saved(node, "group")

    def grouped(stack: Tensor) -> Tensor:
        return stack.reshape(*stack.shape[: stack.ndim - len(shape) + 1], groups, math.prod(shape[1:]) // groups)

    x = grouped(read_saved(node, "input"))
    rstd = _attached_rstd(x.var(-1, correction=0, keepdim=True), read_saved(node, "result2"))
    jet = normalised_jet(x, carried(the_jet(jets), grouped), (-1,), rstd, order)
    whole = carried(jet, lambda stack: stack.reshape(len(stack), *shape))
    return {0: _weighted(whole, _per_channel(read_saved(node, "weight"), len(shape)))}


def _group_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    into, shape = the_reach(reach), step.shape()
    grouped = into.reshape(len(into), shape[0], read_saved(step.node, "group"), -1)
    return {0: mixed_reach(grouped, [2]).reshape(len(into), *shape)}


def _per_channel(weight: Tensor | None, ndim: int) -> Tensor | None:
    return None if weight is None else weight.reshape(-1, *(1,) * (ndim - 2))


def _batch_norm_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # channels never meet, with statistics of their own or not (InstanceNorm is BatchNorm of [1, B * C, ...]); samples
    # meet in training, where the statistics are taken over them
    if number:
        return [None, None, None]
    if place.axis == 1:
        return [place, moved(place, 0), moved(place, 0)]
    return [None if read_saved(step.node, "training") else place, None, None]


def _batch_norm_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node, ndim = step.node, len(step.shape())
    weight = _per_channel(read_saved(node, "weight"), ndim)
    if not read_saved(node, "training"):
        scale = _per_channel((read_saved(node, "running_var") + read_saved(node, "eps")).rsqrt(), ndim)
        return {0: _weighted(_weighted(the_jet(jets), scale), weight)}
    x, axes = read_saved(node, "input"), (-ndim, *range(2 - ndim, 0))
    rstd = (x.var(axes, correction=0, keepdim=True) + read_saved(node, "eps")).rsqrt()
    return {0: _weighted(normalised_jet(x, the_jet(jets), axes, rstd, order), weight)}


def _batch_norm_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    if any(into is not None for into in reach[1:]):
        return {}
    into = the_reach(reach)
    ndim = into.ndim - 1
    return {0: mixed_reach(into, [0, *range(2, ndim)]) if read_saved(step.node, "training") else into}


RULES = {
    "NativeLayerNormBackward0": Rule(_layer_batch, _layer_push, _layer_spread, pushes=_only_input),
    "NativeGroupNormBackward0": Rule(_group_batch, _group_push, _group_spread, pushes=_only_input),
    "NativeBatchNormBackward0": Rule(_batch_norm_batch, _batch_norm_push, _batch_norm_spread, pushes=_only_input),
    "CudnnBatchNormBackward0": Rule(_batch_norm_batch, None, _batch_norm_spread),
}
