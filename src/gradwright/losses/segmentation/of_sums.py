"""From the sums of a confusion to a loss of them, in two passes: one for the sums, one for the gradients.

NOTE [By hand]: between the passes lie a few numbers for each class. torch would take half a millisecond for a loss of
them and its backward, as long as a kernel takes for a million elements; so value and slopes are Python's numbers.
Wherever values can't be read, and for derivatives of gradients, it is plain torch that computes both (NOTE [Two ways]
in ``common.rowwise``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from gradwright.ground.torch_versions.levels import is_legacy_batchedtensor, is_transformed
from gradwright.kernels.launch.plan import Plan
from gradwright.kernels.launch.rows import row_launch_of, run_rows
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    are_for_kernels,
    are_values_to_be_read,
)
from gradwright.losses.common.plans import is_planned, tell, why_unfused
from gradwright.losses.common.precision import dtype_of_value, widened
from gradwright.losses.segmentation.confusion import Arguments

STEEPEST: Final = 1e30  # a slope of a power below 1, near 0: times what it multiplies there, it is in float32's range


class OfSums(NamedTuple):
    """A loss of the sums of a class.

    ``by_hand``: of a class's sums (TP, FP, FN, and CE, N where they are there), the loss and its slopes by all of them
    but N. ``by_torch``: the same loss of tensors [sums, C], as [C]. ``power``: what the reduced loss is raised to.
    """

    by_hand: Callable[[Sequence[float]], tuple[float, Sequence[float]]]
    by_torch: Callable[[Tensor], Tensor]
    reduction: Reduction
    empty: Empty
    power: float = 1.0


def loss_of_sums(arguments: Arguments, of: OfSums) -> Tensor:
    """The loss, differentiable to any order with respect to the input (and the target, where that is wanted)."""
    prediction = arguments.input
    others = [value for value in arguments.operands.values() if isinstance(value, Tensor) and value is not prediction]
    learns = any(other.requires_grad for other in others)
    if learns or not are_for_kernels([prediction, *others, arguments.mask]):
        if is_planned():
            tell("sums and gradients", Plan("torch", why_unfused(learns, prediction)))
        return _unfused(arguments, of, prediction)
    is_read = are_values_to_be_read([prediction, *others, arguments.mask])
    return (_OfSums if is_read else _QueuedSums).apply(arguments, of, prediction)  # type: ignore[no-any-return, no-untyped-call]  # of a Function


def power_by_hand(base: float, exponent: float) -> tuple[float, float]:
    """base**exponent for a base of 0 or more, and its slope: 0 at 0, where a loss has its minimum.

    >>> power_by_hand(0.0, 0.75), power_by_hand(4.0, 0.5)
    ((0.0, 0.0), (2.0, 0.25))
    """
    if exponent == 1.0 or math.isnan(base):
        return base, 1.0
    if base <= 0.0:
        return 0.0, 0.0
    return base**exponent, min(exponent * base ** (exponent - 1), STEEPEST)


def power_by_torch(base: Tensor, exponent: float) -> Tensor:
    """As ``power_by_hand``."""
    if exponent == 1.0:
        return base
    is_above = base > 0
    return torch.where(is_above, torch.where(is_above, base, 1.0) ** exponent, base.detach().clamp_min(0))


def _unfused(arguments: Arguments, of: OfSums, prediction: Tensor) -> Tensor:
    wide = torch.float32 if prediction.device.type == "mps" else torch.float64
    dtype, dim = dtype_of_value(prediction.dtype), arguments.dim
    if arguments.mask is not None:  # before, too, so that no NaN of what does not count reaches a gradient
        prediction = torch.where(arguments.mask.unsqueeze(dim), prediction, 0.0)
    with torch.autocast(prediction.device.type, enabled=False):
        each = arguments.each(widened(prediction))
        if arguments.mask is not None:
            each = torch.where(arguments.mask.unsqueeze(dim), each, 0.0)
        others = [axis + 1 for axis in range(prediction.ndim) if axis != dim]
        return _value_of(each.sum(others, dtype=wide) if others else each.to(wide), of).to(dtype)


def _value_of(sums: Tensor, of: OfSums) -> Tensor:
    """The reduced loss of [sums, C], by torch."""
    losses = of.by_torch(sums)
    if of.empty == "nan":
        # torch.where keeps the graph, with a gradient of zero.
        losses = torch.where(_is_any(sums), losses, math.nan)
    if of.reduction != "none":
        losses = losses.mean() if of.reduction == "mean" else losses.sum()
    return power_by_torch(losses, of.power)


def _is_any(sums: Tensor) -> Tensor:
    """Does anything count? By the count, or else by what is true."""
    return ((sums[4] if len(sums) > 4 else sums[0] + sums[2]) != 0).any()


class _OfSums(torch.autograd.Function):
    """``apply`` takes Arguments, OfSums and the prediction."""

    @staticmethod
    def forward(ctx: Any, arguments: Arguments, of: OfSums, prediction: Tensor) -> Tensor:
        ctx.save_for_backward(prediction)
        ctx.arguments, ctx.of = arguments, of
        ctx.set_materialize_grads(False)
        kernels = arguments.kernels()
        operands = _operands(arguments, kernels.sums.axes)
        if is_planned():
            tell("sums", row_launch_of(kernels.sums, operands, arguments.dim, []).plan())
            if prediction.requires_grad:
                back = _launched_back(arguments, prediction, [[0.0] * prediction.shape[arguments.dim]] * 3)
                tell("gradients", row_launch_of(*back).plan())
        sums = [each.tolist() for each in run_rows(kernels.sums, operands, arguments.dim, [])]
        faults = sums.pop() if kernels.has_faults else 0.0
        # What a target must not be makes its sum NaN; see NOTE [Faults are NaN] in ``common.additive``.
        if faults or any(math.isnan(number) for each in sums for number in each):
            arguments.look()
        made = [of.by_hand(each) for each in zip(*sums, strict=True)]
        value, factors = _reduced([loss for loss, _ in made], of, _any_of(sums))
        ctx.slopes = [
            [factor * slope for slope in _by_p(slopes)] for factor, (_, slopes) in zip(factors, made, strict=True)
        ]
        return torch.tensor(value, dtype=dtype_of_value(prediction.dtype))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> tuple[None, None, Tensor | None]:
        arguments: Arguments = ctx.arguments
        (prediction,) = ctx.saved_tensors
        if cotangent is None:
            return None, None, None
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            return None, None, _differentiably(arguments, ctx.of, prediction, cotangent)
        arrived = cotangent.tolist()
        of_each = arrived if isinstance(arrived, list) else [arrived] * len(ctx.slopes)
        scaled = [[c * slope for slope in slopes] for c, slopes in zip(of_each, ctx.slopes, strict=True)]
        by_class = [list(numbers) for numbers in zip(*scaled, strict=True)] or [[], [], []]
        return None, None, run_rows(*_launched_back(arguments, prediction, by_class))[0]


def _differentiably(arguments: Arguments, of: OfSums, prediction: Tensor, cotangent: Tensor) -> Tensor:
    """The gradient with a graph of its own."""
    with torch.enable_grad():
        mine = prediction.view_as(prediction)
        value = _unfused(arguments, of, mine)
    (found,) = torch.autograd.grad(value, [mine], cotangent, create_graph=torch.is_grad_enabled())
    return found


class _QueuedSums(torch.autograd.Function):
    """As ``_OfSums``, on an accelerator: nothing is looked at, so what lies between the two passes is torch's; what is
    refused on a CPU makes the loss NaN."""

    @staticmethod
    def forward(ctx: Any, arguments: Arguments, of: OfSums, prediction: Tensor) -> Tensor:
        ctx.save_for_backward(prediction)
        ctx.arguments, ctx.of = arguments, of
        ctx.set_materialize_grads(False)
        kernels = arguments.kernels()
        operands = _operands(arguments, kernels.sums.axes)
        if is_planned():
            tell("sums", row_launch_of(kernels.sums, operands, arguments.dim, []).plan())
            if prediction.requires_grad:
                nothing = prediction.new_zeros(prediction.shape[arguments.dim])
                tell("gradients", row_launch_of(*_queued_back(arguments, prediction, [nothing] * 3)).plan())
        sums = run_rows(kernels.sums, operands, arguments.dim, [])
        faults = sums.pop() if kernels.has_faults else None
        with torch.enable_grad():
            mine = torch.stack(sums).requires_grad_()
            value = _value_of(mine, of)
            (ctx.slopes,) = torch.autograd.grad(value.sum(), mine)
        value = value.detach() if faults is None else torch.where(faults > 0, math.nan, value.detach())
        return value.to(dtype_of_value(prediction.dtype))

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> tuple[None, None, Tensor | None]:
        arguments: Arguments = ctx.arguments
        (prediction,) = ctx.saved_tensors
        if cotangent is None:
            return None, None, None
        if torch.is_grad_enabled() or is_transformed() or is_legacy_batchedtensor(cotangent):
            return None, None, _differentiably(arguments, ctx.of, prediction, cotangent)
        by_tp, by_fp, by_fn, *more = (cotangent * ctx.slopes).unbind()
        by_class = [by_fp, by_tp - by_fp - by_fn, *more[:1]]
        return None, None, run_rows(*_queued_back(arguments, prediction, by_class))[0]


def _queued_back(arguments: Arguments, prediction: Tensor, slopes: Sequence[Tensor]) -> tuple[Any, ...]:
    """What ``run_rows`` takes for the gradients, of slopes that nobody has looked at."""
    dtype = torch.float64 if prediction.dtype is torch.float64 else torch.float32
    program = arguments.kernels().gradients
    more = {name: each.to(dtype) for name, each in zip(("a", "b", "g"), slopes, strict=False)}
    return program, _operands(arguments, program.axes, more), arguments.dim, [prediction.dtype]


def _by_p(slopes: Sequence[float]) -> list[float]:
    """a, b and g of ``confusion``."""
    by_tp, by_fp, by_fn, *more = slopes
    return [by_fp, by_tp - by_fp - by_fn, *more]


def _any_of(sums: Sequence[Sequence[float]]) -> bool:
    return any(sums[4]) if len(sums) > 4 else any(tp + fn != 0 for tp, fn in zip(sums[0], sums[2], strict=True))


def _reduced(losses: list[float], of: OfSums, is_any: bool) -> tuple[float | list[float], list[float]]:
    """The value, and what each class's slopes are multiplied by."""
    if of.empty == "nan" and not is_any:
        return (math.nan if of.reduction != "none" else [math.nan] * len(losses)), [0.0] * len(losses)
    if of.reduction == "none":
        powers = [power_by_hand(loss, of.power) for loss in losses]
        return [value for value, _ in powers], [slope for _, slope in powers]
    share = 1.0 / len(losses) if of.reduction == "mean" and losses else 1.0
    value, slope = power_by_hand(math.fsum(losses) * share, of.power)
    return value, [slope * share] * len(losses)


def _launched_back(arguments: Arguments, prediction: Tensor, slopes: list[list[float]]) -> tuple[Any, ...]:
    """What ``run_rows`` takes for the gradients."""
    # In the precision that is computed in: a float64 operand would make it float64.
    dtype = torch.float64 if prediction.dtype is torch.float64 else torch.float32
    program = arguments.kernels().gradients
    more = {name: torch.tensor(each, dtype=dtype) for name, each in zip(("a", "b", "g"), slopes, strict=False)}
    operands = _operands(arguments, program.axes, more)
    return program, operands, arguments.dim, [prediction.dtype]


def _operands(arguments: Arguments, names: Any, more: dict[str, Tensor] | None = None) -> list[Any]:
    given = {**arguments.operands, **(more or {}), "mask": arguments.mask}
    return [given[name].detach() if isinstance(given[name], Tensor) else given[name] for name in names]
