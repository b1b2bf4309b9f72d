"""The right gradient times a constant, or nothing of it."""

from __future__ import annotations

import torch
from torch import Tensor

from corpus.measuring import value_differs
from corpus.rights import tiny
from corpus.spoilers.base import VALUE, Spoiler, of_gradient, primal, several_inputs
from corpus.wrapping import Wrapping


def _zero(gradient: Tensor, _: Tensor) -> Tensor:
    return torch.zeros_like(gradient)


def _tiny_zero(right: Wrapping) -> Wrapping | None:
    zero = of_gradient("", "", _zero)
    return zero.make(right.but(specimen=tiny(right.specimen)))


def _count(right: Wrapping) -> int:
    """Elements that a mean would divide by: of the first input over those of the first output, or along its batch."""
    first = primal(right.specimen)
    with torch.no_grad():
        outputs = right.specimen.call(*right.specimen.fresh())
    ratio = first.numel() // max(outputs[0].numel(), 1)
    return ratio if ratio > 1 else (first.shape[0] if first.ndim else 1)


def _counted(power: int) -> Spoiler:
    def make(right: Wrapping) -> Wrapping | None:
        count = _count(right)
        scaled = of_gradient("", "", lambda gradient, _: gradient * float(count) ** power)
        return scaled.make(right) if count > 1 else None

    name = "times the count of a mean" if power > 0 else "divided by the count of a sum"
    return Spoiler(name, VALUE, ("sum for mean", "constant factor"), make, value_differs)


SPOILERS = [
    of_gradient("half", "constant factor", lambda gradient, _: gradient * 0.5),
    of_gradient("double", "constant factor", lambda gradient, _: gradient * 2.0),
    of_gradient("0.05 % too large", "constant factor", lambda gradient, _: gradient * 1.0005),
    of_gradient("sign", "sign", lambda gradient, _: -gradient),
    of_gradient("sign of one input", "sign", lambda gradient, _: -gradient, only=1, applies=several_inputs),
    of_gradient("half of one input", "constant factor", lambda g, _: g * 0.5, only=0, applies=several_inputs),
    of_gradient("zero", ("dropped term", "constant factor"), _zero),
    Spoiler("zero where the scale is 1e-6", VALUE, ("dropped term", "constant factor"), _tiny_zero),
    _counted(1),
    _counted(-1),
]
