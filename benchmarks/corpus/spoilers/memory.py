"""What is kept, and for how long: graphs, state, random numbers."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import torch
from torch import Tensor

from corpus.measuring import call, differs_under, draw, gradients, repeated
from corpus.specimen import Outputs, differentiable
from corpus.spoilers.base import CONTRACT, Spoiler, of_backward
from corpus.wrapping import Gradients, Wrapping, mark_integers, right_backward, right_forward

_repeated = differs_under(repeated)


# --- leaks -----------------------------------------------------------------------------------------------------------


def _parked(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    outputs = right_forward(ctx, wrapping, args)
    ctx.outputs = outputs
    return outputs


def _alive(wrapping: Wrapping) -> bool:
    """Is an output's node still there after everything that led to it is gone, but for the collector of cycles?"""
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            args = wrapping.specimen.fresh()
            outputs = call(wrapping, args)
            gradients(outputs, args, draw(outputs, 1))
            node = weakref.ref(next(output.grad_fn for output in outputs if output.grad_fn is not None))
            del outputs, args
            return node() is not None
    finally:
        gc.enable()


def _leaks(right: Wrapping, spoiled: Wrapping) -> bool:
    return not _alive(right) and _alive(spoiled)


# --- state -----------------------------------------------------------------------------------------------------------


def _worse_each_time(right: Wrapping) -> Wrapping:
    """A counter beside the class."""
    times = 0

    def backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
        nonlocal times
        factor, times = 1.0 + 0.01 * times, times + 1
        found = right_backward(ctx, wrapping, cotangents)
        return tuple(None if gradient is None else gradient * factor for gradient in found)

    return right.but(backward=backward)


def _last_call(right: Wrapping) -> Wrapping:
    """The inputs of whichever forward came last, kept on the class."""
    kept: dict[str, tuple[Tensor, ...]] = {}

    def forward(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
        kept["args"] = tuple(arg.detach().clone() for arg in args)
        return right_forward(ctx, wrapping, args)

    def backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
        return wrapping.vjp(kept["args"], cotangents, ctx.needs_input_grad)

    return right.but(forward=forward, backward=backward, once=True)


def _second_time(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    """An accumulator on ctx: the second backward through one graph returns the sum of both."""
    found = right_backward(ctx, wrapping, cotangents)
    ctx.times = getattr(ctx, "times", 0) + 1
    return tuple(None if gradient is None else gradient * float(ctx.times) for gradient in found)


# --- random numbers --------------------------------------------------------------------------------------------------


def _jittered(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    found = right_backward(ctx, wrapping, cotangents)
    return tuple(
        None if gradient is None else gradient * (1 + 1e-3 * torch.rand(gradient.shape, dtype=gradient.dtype))
        for gradient in found
    )


def _mask(output: Tensor) -> Tensor:
    return (torch.rand(output.shape, dtype=torch.float64) < 0.5).to(output.dtype) * 2.0


def _masked(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    ctx.save_for_backward(*args)
    outputs = wrapping.compute(*args)
    ctx.masks = [_mask(output) if differentiable(output) else None for output in outputs]
    outputs = tuple(o if mask is None else o * mask for o, mask in zip(outputs, ctx.masks, strict=True))
    mark_integers(ctx, outputs)
    return outputs


def _by_saved_mask(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    masked = [c if mask is None or c is None else c * mask for c, mask in zip(cotangents, ctx.masks, strict=True)]
    return wrapping.vjp(ctx.saved_tensors, masked, ctx.needs_input_grad)


def _by_new_mask(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    ctx.masks = [None if mask is None else _mask(mask) for mask in ctx.masks]
    return _by_saved_mask(ctx, wrapping, cotangents)


def with_saved_mask(right: Wrapping) -> Wrapping:
    """A right one that draws random numbers: dropout on the output."""
    return right.but(forward=_masked, backward=_by_saved_mask)


def _mask_matters(right: Wrapping, spoiled: Wrapping) -> bool:
    return _repeated(with_saved_mask(right), spoiled)


SPOILERS = [
    Spoiler("output parked on ctx", CONTRACT, ("leak",), lambda right: right.but(forward=_parked), _leaks),
    Spoiler("a counter on the class", CONTRACT, ("state kept between calls",), _worse_each_time, _repeated),
    Spoiler("inputs of the last call kept", CONTRACT, ("state kept between calls",), _last_call, _repeated),
    of_backward("second backward adds up", "state kept between calls", _second_time, kind=CONTRACT, differs=_repeated),
    of_backward("random numbers in the backward", "nondeterminism", _jittered, kind=CONTRACT, differs=_repeated),
    Spoiler(
        "mask drawn again in the backward",
        CONTRACT,
        ("random state", "nondeterminism"),
        lambda right: right.but(forward=_masked, backward=_by_new_mask),
        _mask_matters,
        stochastic=True,
    ),
]
