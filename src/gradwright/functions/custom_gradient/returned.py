"""What a backward returned, brought to one gradient per input tensor, and checked before the engine repairs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradwright.functions.custom_gradient.messages import complaint, listed, not_implemented, told
from gradwright.functions.custom_gradient.trees import TENSOR, Layout


class Meta(NamedTuple):
    """Shape, dtype and device of a tensor that is not kept."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> Meta:
        return tuple.__new__(cls, (tensor.shape, tensor.dtype, tensor.device))

    @property
    def differentiable(self) -> bool:
        return self.dtype.is_floating_point or self.dtype.is_complex

    def zeros(self) -> Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the forward in one call: where its tensors are among the leaves, and how they hang together."""

    name: str
    layout: Layout
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.layout.count


def by_leaf(
    result: Any,
    arguments: Sequence[Argument],
    metas: Sequence[Meta],
    needs: Sequence[bool],
    where: str,
    cast: bool = False,
) -> list[Tensor | None]:
    """One gradient per leaf out of what a backward returned: one gradient, a tuple of them, or a dict by input name.

    ``needs``: which leaves need one. ``cast``: bring gradients to the dtype of their inputs (under autocast) instead of
    complaining.
    Raises: UsageError, where number, name, shape or dtype are not those of the inputs, or where one that is needed is
    ``NotImplemented``.
    """
    found: list[Tensor | None] = [None] * len(metas)
    for argument, value in _by_argument(result, arguments, metas, where):
        for index, gradient in enumerate(_by_tensor(value, argument, where), argument.start):
            if gradient is not NotImplemented:
                found[index] = fitting(gradient, metas[index], argument.name, where, cast)
            elif needs[index]:
                raise not_implemented(
                    argument.name,
                    where,
                    "the backward returned NotImplemented in its place",
                    f"hand over {argument.name}.detach(), if its gradient is not wanted",
                )
    return found


def _by_argument(
    result: Any, arguments: Sequence[Argument], metas: Sequence[Meta], where: str
) -> Sequence[tuple[Argument, Any]]:
    """The gradient of each argument. A row of them has one for every parameter, or for those that held tensors in this
    call, or for those that held tensors that can have a gradient."""
    holding = [argument for argument in arguments if argument.layout.count]
    wanted = [a for a in holding if any(metas[i].differentiable for i in range(a.start, a.stop))]
    if len(wanted) == 1 and _is_one_gradient(result, wanted[0], (len(arguments), len(holding))):
        return [(wanted[0], result)]
    if type(result) is dict:
        return _by_name(result, arguments, wanted, where)
    row = result if isinstance(result, (tuple, list)) else (result,)
    for of in (arguments, holding, wanted):
        if len(of) == len(row):
            return list(zip(of, row, strict=True))
    raise complaint(
        f"the backward returned {len(row)} gradient{'s' * (len(row) != 1)} for {len(wanted)} inputs",
        where=where,
        why=f"the inputs that can have a gradient are {listed(argument.name for argument in wanted)}",
        do=f"return {', '.join('grad_' + argument.name for argument in wanted)}; None where a gradient is zero",
    )


def _is_one_gradient(result: Any, only: Argument, lengths: tuple[int, int]) -> bool:
    """Is it the gradient of the only argument that can have one, rather than a row or a dict of gradients?"""
    if only.layout is TENSOR:
        return type(result) is not dict and not isinstance(result, (tuple, list))
    if (type(result) is dict and set(result) == {only.name}) or (
        isinstance(result, tuple) and len(result) in (1, *lengths)
    ):
        return only.layout.take(result) is not None
    return True


def _by_name(
    result: dict[Any, Any], arguments: Sequence[Argument], wanted: Sequence[Argument], where: str
) -> list[tuple[Argument, Any]]:
    names = [argument.name for argument in arguments]
    if unknown := [name for name in result if name not in names]:
        raise complaint(
            f"the backward returned a gradient of {unknown[0]!r}, which is no input",
            where=where,
            why=f"the inputs are {listed(names)}",
            do="return gradients by the names of the inputs",
        )
    if missing := [argument.name for argument in wanted if argument.name not in result]:
        raise complaint(
            f"the backward returned no gradient of {listed(missing)}",
            where=where,
            do=f"return one, or None where it is zero: {{..., {missing[0]!r}: None}}",
        )
    return [(argument, result[argument.name]) for argument in arguments if argument.name in result]


def _by_tensor(value: Any, argument: Argument, where: str) -> Sequence[Any]:
    """Of one argument: a gradient, or ``None``, for each of its tensors."""
    layout = argument.layout
    if layout is TENSOR:
        return (value,)
    if value is None or value is NotImplemented:
        return [value] * layout.count
    if not layout.count:
        raise complaint(
            f"the backward returned {told(value)} as the gradient of {argument.name}, which held no tensor",
            where=where,
            do="return None for it, or leave it out",
        )
    taken = layout.take(value)
    if taken is None:
        raise complaint(
            f"the gradient of {argument.name} has another structure than {argument.name}",
            where=where,
            why=f"it is a {type(value).__name__}; {argument.name} was {layout.fill(['tensor'] * layout.count)}",
            do=f"return it in the structure of {argument.name}, None where a gradient is zero",
        )
    return taken


def fitting(gradient: Any, like: Meta | Tensor, name: str, where: str, cast: bool) -> Tensor | None:
    """The gradient, if it fits its input. Raises: UsageError, if it does not."""
    if gradient is None:
        return None
    dtype = like.dtype
    if isinstance(gradient, Tensor) and (dtype.is_floating_point or dtype.is_complex) and gradient.shape == like.shape:
        if gradient.dtype is dtype:
            return gradient
        if cast:
            return gradient.to(dtype)
    raise _misfit(gradient, like, name, where)


def _misfit(gradient: Any, like: Meta | Tensor, name: str, where: str) -> Exception:
    dtype = like.dtype
    if not isinstance(gradient, Tensor):
        why, do = "a gradient is a tensor", "return a tensor, or None where the gradient is zero"
    elif not (dtype.is_floating_point or dtype.is_complex):
        why, do = "integers and bools have no gradient", "return None for it, or leave it out"
    elif gradient.shape != like.shape:
        why, do = "a gradient has the shape of its input", _shape_advice(gradient, like, name)
    else:
        why = "a gradient has the dtype of its input"
        drops = gradient.is_complex() and not dtype.is_complex
        do = f"return grad_{name}.real" if drops else f"return grad_{name}.to({name}.dtype)"
    return complaint(
        f"the backward returned {told(gradient)} as the gradient of {name}, which is "
        f"{str(dtype).removeprefix('torch.')}{list(like.shape)}",
        where=where,
        why=why,
        do=do,
    )


def _shape_advice(gradient: Tensor, like: Meta | Tensor, name: str) -> str:
    try:
        both = torch.broadcast_shapes(gradient.shape, like.shape)  # type: ignore[no-untyped-call]  # torch has no types here
    except RuntimeError:
        return f"see how the forward uses {name}: its derivative sums over what the forward repeats"
    if both == gradient.shape:
        return f"the forward broadcasts {name}: return grad_{name}.sum_to_size({name}.shape)"
    if both == like.shape:
        return f"the forward sums over {name}: return grad_{name}.expand({name}.shape)"
    return f"see how the forward uses {name}: its derivative sums over what the forward repeats"
