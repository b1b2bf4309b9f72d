"""What works along one axis: softmax, running sums and products, sorting, gated halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import added, linear_push, linear_spread, saved_axis, the_jet, the_reach
from gradwright.derivatives.nodes.reach import mixed_reach
from gradwright.derivatives.nodes.reductions import behind, kept, reduction, total
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def along_axis_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    """The batch stays where it is, unless the step works along its very axis."""
    return [None if place.axis == saved_axis(step) else place]


def _mixes(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    return {0: mixed_reach(the_reach(reach), [saved_axis(step)])}


def _from_end(step: Step) -> int:
    return saved_axis(step) - max(len(step.shape()), 1)


def softmax_jet(weights: Tensor, jet: Jet, axis: int, order: int) -> Jet:
    """The jet of s = softmax(x) along ``axis`` (from the end), ``weights`` being s.

    With m = <s, x'>: s' = s (x' - m), and s'' = s (x'' - <s, x''>) + s ((x' - m)^2 - <s, (x' - m)^2>).
    """
    apart = jet.first - (weights * jet.first).sum(axis, keepdim=True)
    first = weights * apart
    if order == 1:
        return Jet(first)
    inner = added(apart.square().sum(0), jet.second)
    assert inner is not None
    return Jet(first, weights * (inner - (weights * inner).sum(axis, keepdim=True)))


def _softmax(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    return {0: softmax_jet(read_saved(step.node, "result"), the_jet(jets), _from_end(step), order)}


def _log_softmax(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    # y = x - l with l = logsumexp(x): y' = x' - <s, x'>, y'' = x'' - <s, x''> - <s, (x' - <s, x'>)^2>
    jet, axis = the_jet(jets), _from_end(step)
    weights = read_saved(step.node, "result").exp()
    first = jet.first - (weights * jet.first).sum(axis, keepdim=True)
    if order == 1:
        return {0: Jet(first)}
    bent = added(first.square().sum(0), jet.second)
    assert bent is not None
    lowered = -(weights * bent).sum(axis, keepdim=True)
    second = lowered.expand(step.shape()) if jet.second is None else jet.second + lowered
    return {0: Jet(first, second)}


def _logsumexp(step: Step, jet: Jet, order: int) -> Sequence[Jet]:
    # l' = <s, x'>, l'' = <s, x''> + <s, (x' - l')^2> with s = exp(x - l)
    result, axes = kept(step, read_saved(step.node, "result")), behind(step)
    weights = (read_saved(step.node, "self") - result.masked_fill(result == -torch.inf, 0)).exp()
    first = total(weights * jet.first, axes)
    if order == 1:
        return [Jet(first)]
    bent = added((jet.first - first).square().sum(0), jet.second)
    assert bent is not None
    return [Jet(first, total(weights * bent, axes))]


def _cumsum(step: Step, stack: Tensor) -> Tensor:
    return stack.cumsum(_from_end(step)) if step.shape() else stack


def _chosen(step: Step, stack: Tensor) -> Tensor:
    # sort, topk, cummax: entries moved along the axis by saved indices
    index = read_saved(step.node, "indices")
    return stack.gather(_from_end(step), index.expand(len(stack), *index.shape)) if index.ndim else stack


def _chosen_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    # which entry is chosen differs by sample: any of the axis may be
    into, axis = the_reach(reach), saved_axis(step)
    if not step.shape():
        return {0: into}
    return {0: into.any(axis + 1, keepdim=True).expand(len(into), *step.shape())}


def _gated(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    # y = a g with g = sigmoid(b), a and b the halves: y'' = a'' g + a g'' + 2 a' g', g' = g (1 - g) b'
    jet, axis = the_jet(jets), _from_end(step)
    a, b = read_saved(step.node, "self").chunk(2, axis)
    gate = b.sigmoid()
    slope = gate * (1 - gate)
    of_a, of_b = jet.first.chunk(2, axis)
    first = of_a * gate + of_b * (a * slope)
    if order == 1:
        return {0: Jet(first)}
    second = ((a * slope * (1 - 2 * gate)) * of_b + 2 * slope * of_a).mul(of_b).sum(0)
    if jet.second is not None:
        more_a, more_b = jet.second.chunk(2, axis)
        second = second + more_a * gate + more_b * (a * slope)
    return {0: Jet(first, second)}


def _gated_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    left, right = the_reach(reach).chunk(2, _from_end(step))
    return {0: left | right}


_running = linear_spread(_cumsum)
_selecting = Rule(along_axis_batch, linear_push(_chosen), _chosen_spread)

RULES = {
    "SoftmaxBackward0": Rule(along_axis_batch, _softmax, _mixes),
    "SafeSoftmaxBackward0": Rule(along_axis_batch, _softmax, _mixes),
    "LogSoftmaxBackward0": Rule(along_axis_batch, _log_softmax, _mixes),
    "LogsumexpBackward0": reduction(_logsumexp),
    "CumsumBackward0": Rule(along_axis_batch, linear_push(_cumsum), _running),
    "CumprodBackward0": Rule(along_axis_batch, None, _running),
    "LogcumsumexpBackward0": Rule(along_axis_batch, None, _running),
    "CummaxBackward0": _selecting,
    "CumminBackward0": _selecting,
    "SortBackward0": _selecting,
    "SortBackward1": _selecting,
    "TopkBackward0": _selecting,
    "GluBackward0": Rule(along_axis_batch, _gated, _gated_spread),
}
