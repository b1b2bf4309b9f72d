"""Sums, means, extremes, norms and variances along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import added, linear_push, moved, real, the_jet, the_reach, wrapped
from gradwright.derivatives.nodes.reach import summed_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Pushes, Rule
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved

#: From a step, the value it reduces and its jet: the jets of the outputs, with the reduced axes kept.
Kernel: TypeAlias = Callable[[Step, Jet, int], Sequence[Jet]]


def reduced(step: Step) -> tuple[int, ...]:
    """The axes that a step reduces; a node that saved none of them, or an empty list, reduces all."""
    ndim = len(step.inputs[0].shape)
    saved = read_saved(step.node, "dim", None)
    dims = [saved] if isinstance(saved, int) else saved or range(ndim)
    return tuple(sorted(wrapped(dim, ndim) for dim in dims))


def reduction_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    """The batch stays apart where its axis is not among the reduced ones."""
    gone, axes = reduced(step), range(len(step.inputs[0].shape))
    axis = place.axis if _keepdim(step) else [axis for axis in axes if axis not in gone][place.axis]
    return [None if axis in gone else moved(place, axis)]


def reduction_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    """Whatever reaches an entry along the reduced axes reaches the result."""
    pattern = summed_reach(the_reach(reach), reduced(step), _keepdim(step))
    return dict.fromkeys(range(len(output_metadata(step.node))), pattern)


def reduction(kernel: Kernel, pushes: Pushes | None = None) -> Rule:
    """The rule of a step that reduces axes."""

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        gone = () if _keepdim(step) else behind(step)
        made = kernel(step, the_jet(jets), order)
        return {
            number: Jet(jet.first.squeeze(gone), None if jet.second is None else jet.second.squeeze(gone))
            for number, jet in enumerate(made)
        }

    return Rule(reduction_batch, push, reduction_spread, pushes=pushes)


def behind(step: Step) -> tuple[int, ...]:
    """The reduced axes, counted from the end: the same for a value and for a stack of tangents."""
    ndim = len(step.inputs[0].shape)
    return tuple(axis - ndim for axis in reduced(step))


def total(tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum along ``axes``, which are kept; a sum along none of them is the tensor itself."""
    return tensor.sum(axes, keepdim=True) if axes else tensor


def kept(step: Step, result: Tensor) -> Tensor:
    """A saved result, with the reduced axes kept."""
    if _keepdim(step):
        return result
    for axis in reduced(step):
        result = result.unsqueeze(axis)
    return result


def _keepdim(step: Step) -> bool:
    return bool(read_saved(step.node, "keepdim", False))


def _count(step: Step) -> int:
    shape = step.inputs[0].shape
    return math.prod(shape[axis] for axis in reduced(step))


def _linear(apply: Callable[[Step, Tensor], Tensor]) -> Rule:
    return reduction(lambda step, jet, order: [linear_push(apply)(step, [jet], order)[0]])


def _sum(step: Step, stack: Tensor) -> Tensor:
    return total(stack, behind(step))


def _mean(step: Step, stack: Tensor) -> Tensor:
    return total(stack, behind(step)) / _count(step)


def _nansum(step: Step, stack: Tensor) -> Tensor:
    return total(stack.masked_fill(read_saved(step.node, "self").isnan(), 0), behind(step))


def _extreme(step: Step, stack: Tensor) -> Tensor:
    # autograd shares a cotangent equally among the entries that tie
    tied = (read_saved(step.node, "self") == kept(step, read_saved(step.node, "result"))).to(stack.dtype)
    return total(stack * (tied / total(tied, behind(step))), behind(step))


def _chosen(step: Step, stack: Tensor) -> Tensor:
    # max(dim), median(dim), ...: one entry along the axis, the index of which is saved
    (axis,) = behind(step) or (None,)
    if axis is None:
        return stack
    index = kept(step, read_saved(step.node, "indices"))
    return stack.gather(axis, index.expand(len(stack), *index.shape))


def _prod(step: Step, jet: Jet, order: int) -> Sequence[Jet]:
    # factor by factor, so that zeros do no harm: p <- p x, p' <- p' x + p x', p'' <- p'' x + p x'' + 2 sum of p' x'
    def factors(stack: Tensor) -> list[Tensor]:
        parts = [stack]
        for axis in behind(step):
            parts = [part for whole in parts for part in whole.chunk(whole.shape[axis], axis)]
        return parts

    values, firsts = factors(read_saved(step.node, "self")), factors(jet.first)
    seconds = [None] * len(values) if jet.second is None else factors(jet.second)
    value, first, second = values[0], firsts[0], seconds[0]
    for x, tangent, swing in zip(values[1:], firsts[1:], seconds[1:], strict=True):
        second = added(
            None if second is None else second * x,
            None if swing is None else value * swing,
            2 * (first * tangent).sum(0) if order == 2 else None,
        )
        first = first * x + value * tangent
        value = value * x
    return [Jet(first, second)]


def _few(step: Step, order: int) -> bool:
    return 0 < _count(step) <= 32


def _norm(name: str) -> Rule:
    def order_of(step: Step) -> object:
        return read_saved(step.node, name)

    def kernel(step: Step, jet: Jet, order: int) -> Sequence[Jet]:
        x, axes = read_saved(step.node, "self"), behind(step)
        if order_of(step) == 1:
            return _linear_kernel(x.sign(), jet, axes)
        # y = |x|: with e = x / y, y' = <e, x'> and y'' = <e, x''> + (|x'|^2 - y'^2) / y; 0 at y = 0, as autograd has it
        y = kept(step, read_saved(step.node, "result"))
        zero = y == 0
        safe = y.masked_fill(zero, 1)
        (made,) = _linear_kernel((x / safe).masked_fill(zero, 0), jet, axes)
        if order == 1:
            return [made]
        bent = (total(jet.first.square(), axes) - made.first.square()).sum(0) / safe
        return [Jet(made.first, added(made.second, bent.masked_fill(zero, 0)))]

    return reduction(kernel, lambda step, order: order_of(step) in (1, 2, None) and real(step))


def _linear_kernel(weight: Tensor, jet: Jet, axes: tuple[int, ...]) -> Sequence[Jet]:
    second = None if jet.second is None else total(weight * jet.second, axes)
    return [Jet(total(weight * jet.first, axes), second)]


def _variance(step: Step, jet: Jet, order: int) -> Jet:
    # v = |c|^2 / m with c = x - mean(x): v' = 2 <c, x'> / m, v'' = 2 (<c, x''> + |x' - mean(x')|^2) / m
    x, axes, count = read_saved(step.node, "self"), behind(step), _count(step)
    correction = read_saved(step.node, "correction")
    scale = 2 / max(count - (1 if correction is None else correction), 0)
    centred = (x - total(x, axes) / count) * scale
    (made,) = _linear_kernel(centred, jet, axes)
    if order == 1:
        return made
    swing = total((jet.first - total(jet.first, axes) / count).square().sum(0), axes) * scale
    return Jet(made.first, added(made.second, swing))


def _deviation(step: Step, jet: Jet, order: int, result: Tensor) -> Jet:
    # s = sqrt(v): s' = v' / 2s, s'' = v'' / 2s - s'^2 / s; 0 at s = 0, as autograd has it
    variance, y = _variance(step, jet, order), kept(step, result)
    zero = y == 0
    half = (0.5 / y.masked_fill(zero, 1)).masked_fill(zero, 0)
    first = variance.first * half
    if order == 1 or variance.second is None:
        return Jet(first)
    return Jet(first, variance.second * half - 2 * half * first.square().sum(0))


def _mean_beside(step: Step, jet: Jet) -> Jet:
    return linear_push(_mean)(step, [jet], 1)[0]


def _only_reals(kernel: Kernel) -> Rule:
    return reduction(kernel, lambda step, order: real(step) and _spare(step))


def _spare(step: Step) -> bool:
    correction = read_saved(step.node, "correction")
    return _count(step) > (1 if correction is None else correction)


RULES = {
    "SumBackward0": _linear(_sum),
    "SumBackward1": _linear(_sum),
    "NansumBackward0": _linear(_nansum),
    "MeanBackward0": _linear(_mean),
    "MeanBackward1": _linear(_mean),
    "ProdBackward0": reduction(_prod, _few),
    "ProdBackward1": reduction(_prod, _few),
    "AmaxBackward0": _linear(_extreme),
    "AminBackward0": _linear(_extreme),
    "MaxBackward1": _linear(_extreme),
    "MinBackward1": _linear(_extreme),
    "MaxBackward0": _linear(_chosen),
    "MinBackward0": _linear(_chosen),
    "MedianBackward1": _linear(_chosen),
    "NanmedianBackward1": _linear(_chosen),
    "KthvalueBackward0": _linear(_chosen),
    "ModeBackward0": _linear(_chosen),
    "LinalgVectorNormBackward0": _norm("ord"),
    "NormBackward1": _norm("p"),
    "VarBackward0": _only_reals(lambda step, jet, order: [_variance(step, jet, order)]),
    "VarMeanBackward0": _only_reals(lambda step, jet, order: [_variance(step, jet, order), _mean_beside(step, jet)]),
    "StdBackward0": _only_reals(
        lambda step, jet, order: [_deviation(step, jet, order, read_saved(step.node, "result"))],
    ),
    "StdMeanBackward0": _only_reals(
        lambda step, jet, order: [
            _deviation(step, jet, order, read_saved(step.node, "result0")),
            _mean_beside(step, jet),
        ],
    ),
}
