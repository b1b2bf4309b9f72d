"""Wrong in one region of the inputs only; some of these regions hold no entry of the sample."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from corpus.measuring import value_differs_at
from corpus.specimen import Specimen
from corpus.spoilers.base import Spoiler, of_gradient


def _below_zero(gradient: Tensor, arg: Tensor) -> Tensor:
    return torch.where(arg < 0, gradient * 0.5, gradient)


def _beyond(gradient: Tensor, arg: Tensor) -> Tensor:
    return torch.where(arg.abs() > arg.detach().abs().median(), gradient * 3.0, gradient)


def _none_below_zero(gradient: Tensor, arg: Tensor) -> Tensor:
    return torch.where(arg < 0, torch.zeros_like(gradient), gradient)


def _zero_over_zero(gradient: Tensor, arg: Tensor) -> Tensor:
    return gradient * (arg / arg)


def _huge(gradient: Tensor, arg: Tensor) -> Tensor:
    return gradient * (arg.abs().exp() / arg.abs().exp())


def _tied(gradient: Tensor, arg: Tensor) -> Tensor:
    values = arg.detach().reshape(-1)
    copies = (values[:, None] == values[None, :]).sum(1).to(gradient.dtype).reshape(gradient.shape)
    return gradient / copies


def _changed(specimen: Specimen, change: object) -> Specimen:
    args = []
    for arg in specimen.args:
        if arg.requires_grad:
            moved = arg.detach().clone()
            change(moved.view(-1))  # type: ignore[operator]
            arg = moved.requires_grad_()
        args.append(arg)
    return specimen.at(args)


def with_a_zero(specimen: Specimen) -> Iterator[Specimen]:
    yield _changed(specimen, lambda flat: flat[flat.numel() // 2].fill_(0.0))


def with_a_tie(specimen: Specimen) -> Iterator[Specimen]:
    if any(specimen.args[index].numel() > 1 for index in specimen.wanted):
        yield _changed(specimen, lambda flat: flat[-1].copy_(flat[0]))


def with_a_huge_one(specimen: Specimen) -> Iterator[Specimen]:
    for value in (1e3, -1e3):
        yield _changed(specimen, lambda flat, value=value: flat[flat.numel() // 2].fill_(value))


SPOILERS: list[Spoiler] = [
    of_gradient("half where x < 0", "region", _below_zero),
    of_gradient("zero where x < 0", ("region", "dropped term"), _none_below_zero),
    of_gradient("threefold where |x| is large", "region", _beyond),
    of_gradient("0/0 at zero", ("region", "not finite"), _zero_over_zero, differs=value_differs_at(with_a_zero)),
    of_gradient(
        "overflow where |x| is huge", ("region", "not finite"), _huge, differs=value_differs_at(with_a_huge_one)
    ),
    of_gradient("divided among ties", "region", _tied, differs=value_differs_at(with_a_tie)),
]
