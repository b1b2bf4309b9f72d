"""What a spoiler is, and the two commonest kinds: of the gradient, and of the cotangent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from corpus.measuring import value_differs
from corpus.specimen import Specimen, differentiable, real_only
from corpus.wrapping import Gradients, Wrapping

Kind = Literal["wrong value", "contract"]
Make = Callable[[Wrapping], Wrapping | None]
Differs = Callable[[Wrapping, Wrapping], bool]
VALUE: Kind = "wrong value"
CONTRACT: Kind = "contract"


@dataclass(frozen=True)
class Spoiler:
    """One way to make a right Function wrong.

    ``causes``: the label first, then other words that say the same fault as truly. ``make(right)`` gives the spoiled
    one (``None``: does not apply); ``differs(right, spoiled)`` measures whether there is a fault at all.
    ``stochastic``: the forward draws random numbers, so a judge has to be given a seeded one.
    """

    name: str
    kind: Kind
    causes: tuple[str, ...]
    make: Make
    differs: Differs = value_differs
    stochastic: bool = False


def of_gradient(
    name: str,
    cause: str | tuple[str, ...],
    change: Callable[[Tensor, Tensor], Tensor | None],
    *,
    applies: Callable[[Wrapping], bool] | None = None,
    only: int | None = None,
    differs: Differs = value_differs,
    kind: Kind = VALUE,
) -> Spoiler:
    """``change(gradient, primal)`` of every wanted input, or of the wanted input number ``only``."""

    def backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
        args = ctx.saved_tensors
        gradients = wrapping.vjp(args, cotangents, ctx.needs_input_grad)
        chosen = wrapping.specimen.wanted
        if only is not None:
            chosen = chosen[only : only + 1]
        return tuple(
            change(gradient, args[index]) if gradient is not None and index in chosen else gradient
            for index, gradient in enumerate(gradients)
        )

    return _spoiler(name, kind, cause, backward, applies, differs)


def of_cotangent(
    name: str,
    cause: str | tuple[str, ...],
    change: Callable[[Tensor], Tensor],
    *,
    applies: Callable[[Wrapping], bool] | None = None,
    only: int | None = None,
    differs: Differs = value_differs,
    kind: Kind = VALUE,
) -> Spoiler:
    """``change(cotangent)`` of every differentiable output, or of output number ``only``, before the exact vjp."""

    def backward(ctx: Any, wrapping: Wrapping, cotangents: tuple[Tensor | None, ...]) -> Gradients:
        changed = [
            change(item) if item is not None and differentiable(item) and only in (None, index) else item
            for index, item in enumerate(cotangents)
        ]
        return wrapping.vjp(ctx.saved_tensors, changed, ctx.needs_input_grad)

    return _spoiler(name, kind, cause, backward, applies, differs)


def of_backward(
    name: str,
    cause: str | tuple[str, ...],
    backward: Callable[[Any, Wrapping, tuple[Tensor | None, ...]], Any],
    *,
    applies: Callable[[Wrapping], bool] | None = None,
    differs: Differs = value_differs,
    kind: Kind = VALUE,
) -> Spoiler:
    return _spoiler(name, kind, cause, backward, applies, differs)


def _spoiler(
    name: str, kind: Kind, cause: str | tuple[str, ...], backward: Any, applies: Any, differs: Differs
) -> Spoiler:
    def make(right: Wrapping) -> Wrapping | None:
        return right.but(backward=backward) if applies is None or applies(right) else None

    return Spoiler(name, kind, (cause,) if isinstance(cause, str) else cause, make, differs)


def is_real(right: Wrapping) -> bool:
    return real_only(right.specimen)


def several_inputs(right: Wrapping) -> bool:
    return len(right.specimen.wanted) > 1


def primal(specimen: Specimen, number: int = 0) -> Tensor:
    return specimen.args[specimen.wanted[number]]
