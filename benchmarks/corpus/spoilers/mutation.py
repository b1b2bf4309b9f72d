"""What belongs to others is written into."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from corpus.measuring import bytes_kept, differs_under
from corpus.specimen import Outputs
from corpus.spoilers.base import CONTRACT, Spoiler, of_cotangent
from corpus.wrapping import Gradients, Wrapping, mark_integers

_differs = differs_under(bytes_kept)


def _doubled_in_place(cotangent: Tensor) -> Tensor:
    cotangent.mul_(2.0)
    return cotangent * 0.5


def _zeroed_in_data(cotangent: Tensor) -> Tensor:
    kept = cotangent.clone()
    cotangent.data.zero_()
    return kept


def _of_input(hidden: bool) -> Any:
    def forward(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
        kept = tuple(arg.clone() for arg in args)
        ctx.save_for_backward(*kept)
        outputs = wrapping.compute(*kept)
        mark_integers(ctx, outputs)
        first = args[wrapping.specimen.wanted[0]]
        (first.data if hidden else first).add_(1.0)
        return outputs

    return forward


def _saved_scaled(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    args = ctx.saved_tensors
    gradients = wrapping.vjp([arg.detach().clone() for arg in args], cotangents, ctx.needs_input_grad)
    args[wrapping.specimen.wanted[0]].data.mul_(1.5)
    return gradients


def _input_in_backward(right: Wrapping) -> Wrapping:
    return right.but(backward=_saved_scaled, once=True)


def _forwarded(hidden: bool) -> Any:
    return lambda right: right.but(forward=_of_input(hidden), once=True)  # it saves clones


SPOILERS = [
    of_cotangent("in-place on the cotangent", "mutation", _doubled_in_place, kind=CONTRACT, differs=_differs),
    of_cotangent("in-place on the cotangent's .data", "mutation", _zeroed_in_data, kind=CONTRACT, differs=_differs),
    Spoiler("in-place on an input, not declared", CONTRACT, ("mutation",), _forwarded(False), _differs),
    Spoiler("in-place on an input's .data", CONTRACT, ("mutation",), _forwarded(True), _differs),
    Spoiler(
        "saved input scaled in the backward",
        CONTRACT,
        ("mutation", "state kept between calls"),
        _input_in_backward,
        _differs,
    ),
]
