"""A term too few, a term too many, a formula taken elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from corpus.spoilers.base import Spoiler, of_backward, of_gradient, several_inputs
from corpus.wrapping import Gradients, Wrapping


def _last(value: Any) -> Any:
    """``value(gradient)`` instead of the last wanted input's gradient."""

    def backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
        gradients = list(wrapping.vjp(ctx.saved_tensors, cotangents, ctx.needs_input_grad))
        last = wrapping.specimen.wanted[-1]
        gradients[last] = None if gradients[last] is None else value(gradients[last])
        return tuple(gradients)

    return backward


def _elsewhere(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    """The derivative at a point a tenth further out."""
    args = [arg * 1.1 if arg.is_floating_point() else arg for arg in ctx.saved_tensors]
    return wrapping.vjp(args, cotangents, ctx.needs_input_grad)


def _other_constant(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    """The other inputs taken for ones when an input's gradient is computed."""
    args, gradients = ctx.saved_tensors, []
    for index, need in enumerate(ctx.needs_input_grad):
        alone = [
            arg if number == index or not arg.is_floating_point() else torch.ones_like(arg)
            for number, arg in enumerate(args)
        ]
        needs = [number == index and need for number in range(len(args))]
        gradients.append(wrapping.vjp(alone, cotangents, needs)[index])
    return tuple(gradients)


def _decayed(gradient: Tensor, arg: Tensor) -> Tensor:
    return gradient + 0.01 * arg


SPOILERS: list[Spoiler] = [
    of_backward(
        "None for one input", ("dropped term", "constant factor"), _last(lambda _: None), applies=several_inputs
    ),
    of_backward(
        "zero for one input", ("dropped term", "constant factor"), _last(torch.zeros_like), applies=several_inputs
    ),
    of_gradient("offset", "additive offset", lambda gradient, _: gradient + 0.1),
    of_gradient("offset by the input (weight decay)", ("additive offset", "formula"), _decayed),
    of_backward("derivative at another point", "formula", _elsewhere),
    of_backward("other inputs taken for ones", ("formula", "dropped term"), _other_constant, applies=several_inputs),
]
