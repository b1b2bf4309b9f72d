"""The right numbers at wrong places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from corpus.spoilers.base import Spoiler, of_backward, of_gradient, primal
from corpus.wrapping import Gradients, Wrapping


def _turned(gradient: Tensor, _: Tensor) -> Tensor:
    if gradient.ndim < 2:
        return gradient
    return gradient.mT.reshape(gradient.shape)


def _along(axis: int, least: int) -> Any:
    def applies(right: Wrapping) -> bool:
        first = primal(right.specimen)
        return first.ndim >= least and first.shape[axis] > 1

    return applies


def _guarded(change: Any, least: int) -> Any:
    return lambda gradient, _: change(gradient) if gradient.ndim >= least else gradient


def _swapped(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    args, wanted = ctx.saved_tensors, wrapping.specimen.wanted
    needs = [index in wanted for index in range(len(args))]
    gradients = list(wrapping.vjp(args, cotangents, needs))
    one, other = wanted[0], wanted[1]
    gradients[one], gradients[other] = gradients[other], gradients[one]
    return tuple(gradient if need else None for gradient, need in zip(gradients, ctx.needs_input_grad, strict=True))


def _alike(right: Wrapping) -> bool:
    specimen = right.specimen
    return len(specimen.wanted) > 1 and primal(specimen).shape == primal(specimen, 1).shape


def _first_doubled(gradient: Tensor, _: Tensor) -> Tensor:
    factor = torch.ones(gradient.numel(), dtype=gradient.dtype)
    factor[gradient.numel() // 2] = 2.0
    return gradient * factor.reshape(gradient.shape)


def _second_of_batch(gradient: Tensor, _: Tensor) -> Tensor:
    factor = torch.ones(gradient.shape, dtype=gradient.dtype)
    factor[1:] = 0.0
    return gradient * factor


SPOILERS: list[Spoiler] = [
    of_gradient("transpose", ("transpose", "permutation"), _turned, applies=_along(-1, 2)),
    of_gradient("flip", "permutation", _guarded(lambda g: g.flip(-1), 1), applies=_along(-1, 1)),
    of_gradient("roll", "permutation", _guarded(lambda g: g.roll(1, -1), 1), applies=_along(-1, 1)),
    of_backward("swapped inputs", ("swapped inputs", "permutation"), _swapped, applies=_alike),
    of_gradient("one element doubled", "region", _first_doubled),
    of_gradient(
        "batch rows rolled",
        ("batch rows mixed", "permutation"),
        _guarded(lambda g: g.roll(1, 0), 2),
        applies=_along(0, 2),
    ),
    of_gradient(
        "batch rows averaged",
        "batch rows mixed",
        _guarded(lambda g: g.mean(0, keepdim=True).expand_as(g), 2),
        applies=_along(0, 2),
    ),
    of_gradient(
        "only the first of the batch",
        ("dropped term", "region"),
        _guarded(lambda g: _second_of_batch(g, g), 2),
        applies=_along(0, 2),
    ),
]
