"""The contract with the engine: which gradients, how many, of what shape and dtype; and which cotangents."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from corpus.measuring import differs_under, partial_outputs, return_differs, subsets
from corpus.rights import paired
from corpus.specimen import Outputs
from corpus.spoilers.base import CONTRACT, Spoiler, is_real, of_backward, of_gradient, several_inputs
from corpus.wrapping import Gradients, Wrapping, right_backward, right_forward

_subsets = differs_under(subsets)
_partial = differs_under(partial_outputs)


# --- needs_input_grad ------------------------------------------------------------------------------------------------


def _gated_by_the_other(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    wanted, needs = wrapping.specimen.wanted, list(ctx.needs_input_grad)
    one, other = wanted[0], wanted[1]
    needs[one], needs[other] = needs[other], needs[one]
    return wrapping.vjp(ctx.saved_tensors, cotangents, needs)


def _gated_by_all(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    needs = list(ctx.needs_input_grad)
    if not all(needs[index] for index in wrapping.specimen.wanted):
        needs = [False] * len(needs)
    return wrapping.vjp(ctx.saved_tensors, cotangents, needs)


def _gated_by_the_first(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    needs = list(ctx.needs_input_grad)
    needs = [need and needs[wrapping.specimen.wanted[0]] for need in needs]
    return wrapping.vjp(ctx.saved_tensors, cotangents, needs)


# --- undefined cotangents --------------------------------------------------------------------------------------------


def _unfilled(ctx: Any, wrapping: Wrapping, args: tuple[Tensor, ...]) -> Outputs:
    ctx.set_materialize_grads(False)
    return right_forward(ctx, wrapping, args)


def _crash(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    with torch.no_grad():
        active = [output.is_floating_point() or output.is_complex() for output in wrapping.compute(*ctx.saved_tensors)]
    given: list[Any] = []
    for item, used in zip(cotangents, active, strict=True):
        given.append(1.0 * item if used else None)  # type: ignore[operator]  # that is the fault
    return wrapping.vjp(ctx.saved_tensors, given, ctx.needs_input_grad)


def _nothing(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    """No gradient at all if the first output was not used."""
    if cotangents[0] is None:
        return tuple(None for _ in ctx.needs_input_grad)
    return right_backward(ctx, wrapping, cotangents)


def _undefined(backward: Any) -> Any:
    return lambda right: right.but(specimen=paired(right.specimen), forward=_unfilled, backward=backward)


# --- what is returned ------------------------------------------------------------------------------------------------


def _one_too_few(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    return right_backward(ctx, wrapping, cotangents)[:-1]


def _one_too_many(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
    gradients = right_backward(ctx, wrapping, cotangents)
    return (*gradients, next(gradient for gradient in gradients if gradient is not None))


def _of(name: str, cause: str | tuple[str, ...], change: Any, **options: Any) -> Spoiler:
    return of_gradient(name, cause, change, kind=CONTRACT, differs=return_differs, **options)


def _matrix(right: Wrapping) -> bool:
    first = right.specimen.args[right.specimen.wanted[0]]
    return first.ndim > 1 and first.numel() > 1


SPOILERS = [
    *(
        of_backward(name, "needs_input_grad", backward, kind=CONTRACT, differs=_subsets, applies=several_inputs)
        for name, backward in (
            ("needs_input_grad of the other input", _gated_by_the_other),
            ("no gradient unless all are needed", _gated_by_all),
            ("no gradient unless the first is needed", _gated_by_the_first),
        )
    ),
    Spoiler("crash on an undefined cotangent", CONTRACT, ("undefined cotangent",), _undefined(_crash), _partial),
    Spoiler(
        "nothing if the first cotangent is undefined",
        CONTRACT,
        ("undefined cotangent",),
        _undefined(_nothing),
        _partial,
    ),
    of_backward("one gradient too few", "number of gradients", _one_too_few, kind=CONTRACT, differs=return_differs),
    of_backward("one gradient too many", "number of gradients", _one_too_many, kind=CONTRACT, differs=return_differs),
    _of("gradient not summed over a broadcast axis", "shape", lambda g, _: (g * 0.5).expand(2, *g.shape)),
    _of("gradient flattened", "shape", lambda g, _: g.reshape(-1), applies=_matrix),
    _of("gradient in float32", ("dtype", "precision lost"), lambda g, _: g.float(), applies=is_real),
    _of("gradient complex", "dtype", lambda g, _: torch.complex(g, torch.ones_like(g)), applies=is_real),
]
