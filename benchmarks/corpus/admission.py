"""Which samples are fit to be specimens: those of which torch's own gradient is the truth.

A sample is admitted if it is deterministic and finite, changes none of its arguments, takes and returns strided
float64 (or complex) tensors, and if torch's gradient of it agrees with central differences made here, along two random
directions under signed random cotangents: at the sample itself, or else (``kinked``) at two points beside it. So has
its second derivative to, unless it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from corpus.specimen import Specimen, differentiable

MOST_OUTPUTS = 500


class Unfit(Exception):
    """Why a sample is no specimen."""


def admit(specimen: Specimen) -> Specimen:
    for arg in specimen.args:
        if arg.layout is not torch.strided or type(arg) is not Tensor:
            raise Unfit("a tensor of another layout or type")
        if arg.requires_grad and (arg.dtype is not torch.float64):
            raise Unfit(f"a wanted input is {arg.dtype}")
    given = specimen.fresh()
    before = [arg.detach().clone() for arg in given]
    random_state = torch.get_rng_state()
    with torch.no_grad():
        outputs = specimen.call(*given)
    if not torch.equal(random_state, torch.get_rng_state()):
        raise Unfit("draws random numbers")
    if any(not _equal(one, two) for one, two in zip(before, given, strict=True)):
        raise Unfit("changes its arguments")
    if not outputs or sum(output.numel() for output in outputs) > MOST_OUTPUTS:
        raise Unfit("no output or a large one")
    for output in outputs:
        if output.layout is not torch.strided or type(output) is not Tensor:
            raise Unfit("an output of another layout or type")
        if output.dtype not in (torch.float64, torch.complex128) and differentiable(output):
            raise Unfit(f"an output is {output.dtype}")
        if differentiable(output) and not bool(output.isfinite().all()):
            raise Unfit("an output is not finite")
    with torch.no_grad():
        again = specimen.call(*specimen.fresh())
    if any(not _equal(one, two) for one, two in zip(outputs, again, strict=True)):
        raise Unfit("two calls differ")
    around = [beside(specimen, seed) for seed in (1, 2)]
    smooth = agrees_with_differences(specimen) and not is_kinked(specimen)
    if not smooth and not all(agrees_with_differences(point) for point in around):
        raise Unfit("torch's own gradient is not that of central differences")
    if not any(second_order_agrees(point) for point in (specimen, *around)):
        raise Unfit("torch's own second derivative is not that of central differences")
    return specimen if smooth else replace(specimen, kinked=True)


def _equal(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and torch.equal(one.detach().nan_to_num(), two.detach().nan_to_num())


def beside(specimen: Specimen, seed: int, step: float = 1e-3) -> Specimen:
    """The specimen at a point a thousandth away, where ties and zeros are broken."""
    generator = torch.Generator().manual_seed(seed)
    moved = []
    for arg in specimen.args:
        if arg.requires_grad:
            scale = float(arg.detach().abs().mean()) or 1.0
            kick = torch.randn(arg.shape, generator=generator, dtype=arg.dtype) * (step * scale)
            arg = (arg.detach() + kick).requires_grad_()
        moved.append(arg)
    return specimen.at(moved)


def signed_cotangents(outputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Random normal ones for the differentiable outputs."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(output.shape, generator=generator, dtype=output.dtype)
        for output in outputs
        if differentiable(output)
    ]


def inner(cotangents: Sequence[Tensor], outputs: Sequence[Tensor]) -> Tensor:
    """<ȳ, y>, real; of the differentiable outputs."""
    kept = [output for output in outputs if differentiable(output)]
    total = torch.zeros((), dtype=torch.float64)
    for cotangent, output in zip(cotangents, kept, strict=True):
        total = total + (cotangent.conj() * output).real.sum()
    return total


def agrees_with_differences(specimen: Specimen, tolerance: float = 1e-5) -> bool:
    """Is torch's gradient that of central differences, along two random directions over all wanted inputs at once?"""
    args = specimen.fresh()
    outputs = specimen.call(*args)
    if not any(output.requires_grad for output in outputs):
        return False
    cotangents = signed_cotangents(outputs, 5)
    wanted = [args[index] for index in specimen.wanted]
    gradients = torch.autograd.grad(inner(cotangents, outputs), wanted, allow_unused=True)
    if any(gradient is not None and not bool(gradient.isfinite().all()) for gradient in gradients):
        return False
    generator = torch.Generator().manual_seed(6)
    for _ in range(2):
        directions = [torch.randn(arg.shape, generator=generator, dtype=arg.dtype) for arg in wanted]
        analytic = sum(
            float((gradient * direction).sum())
            for gradient, direction in zip(gradients, directions, strict=True)
            if gradient is not None
        )
        size = sum(float(gradient.abs().sum()) for gradient in gradients if gradient is not None)
        if not any(
            abs(_central(specimen, cotangents, directions, step) - analytic)
            <= tolerance * (abs(analytic) + size) + 1e-9
            for step in (1e-6, 1e-5, 1e-4)
        ):
            return False
    return True


def is_kinked(specimen: Specimen) -> bool:
    """Do the differences to either side part? Central ones can't tell: those of |x| at 0 give 0, by symmetry.

    Of a smooth function they part by the step times its curvature: the gap shrinks with the step. At a kink it stays.
    """
    with torch.no_grad():
        outputs = specimen.call(*specimen.fresh())
    cotangents = signed_cotangents(outputs, 5)
    here = float(inner(cotangents, outputs))
    generator = torch.Generator().manual_seed(8)
    for _ in range(2):
        directions = [
            torch.randn(specimen.args[index].shape, generator=generator, dtype=torch.float64)
            for index in specimen.wanted
        ]
        gaps, size = [], 0.0
        for step in (1e-4, 1e-6):
            right, left = (
                (_moved(specimen, cotangents, directions, sign * step) - here) / (sign * step) for sign in (1, -1)
            )
            gaps.append(abs(right - left))
            size = max(size, abs(right), abs(left))
        if gaps[1] > 0.1 * gaps[0] and gaps[1] > 1e-4 * size + 1e-9 * abs(here) / 1e-6:
            return True
    return False


def _moved(specimen: Specimen, cotangents: Sequence[Tensor], directions: Sequence[Tensor], by: float) -> float:
    args = list(specimen.fresh())
    for index, direction in zip(specimen.wanted, directions, strict=True):
        args[index] = args[index].detach() + by * direction
    with torch.no_grad():
        return float(inner(cotangents, specimen.call(*args)))


def second_order_agrees(specimen: Specimen, tolerance: float = 1e-4) -> bool:
    """Is torch's derivative of <gradient, r> along a random direction that of central differences? If it raises, that
    is no wrong one."""

    def gradient(args: Sequence[Tensor], **options: Any) -> list[Tensor]:
        outputs = specimen.call(*args)
        total = inner(signed_cotangents(outputs, 5), outputs)
        wanted = [args[index] for index in specimen.wanted]
        return list(torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True, **options))

    args = specimen.fresh()
    generator = torch.Generator().manual_seed(7)
    weights = [torch.randn(args[index].shape, generator=generator, dtype=torch.float64) for index in specimen.wanted]
    directions = [torch.randn(weight.shape, generator=generator, dtype=torch.float64) for weight in weights]
    try:
        total = sum((g * w).sum() for g, w in zip(gradient(args, create_graph=True), weights, strict=True))
        second: list[Tensor] = [torch.zeros_like(weight) for weight in weights]
        if isinstance(total, Tensor) and total.requires_grad:
            wanted = [args[index] for index in specimen.wanted]
            second = list(torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True))
    except Exception:  # "not implemented" and the like
        return True
    analytic = sum(float((g * u).sum()) for g, u in zip(second, directions, strict=True))
    size = sum(float(g.abs().sum()) for g in second)
    for step in (1e-6, 1e-5, 1e-4):
        ends = []
        for sign in (1, -1):
            moved = list(specimen.fresh())
            for index, direction in zip(specimen.wanted, directions, strict=True):
                moved[index] = (moved[index].detach() + sign * step * direction).requires_grad_()
            ends.append(sum(float((g * w).sum()) for g, w in zip(gradient(moved), weights, strict=True)))
        if abs((ends[0] - ends[1]) / (2 * step) - analytic) <= tolerance * (abs(analytic) + size) + 1e-6:
            return True
    return False


def _central(specimen: Specimen, cotangents: Sequence[Tensor], directions: Sequence[Tensor], step: float) -> float:
    ahead, behind = (_moved(specimen, cotangents, directions, sign * step) for sign in (1, -1))
    return (ahead - behind) / (2 * step)
