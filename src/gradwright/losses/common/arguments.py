"""The arguments that all losses take, and what is refused: shapes that would broadcast, wrong dtypes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from gradwright.ground.torch_versions.levels import is_transformed
from gradwright.ground.torch_versions.modes import get_tracing_state, len_torch_dispatch_stack
from gradwright.kernels.calls.messages import refusal, told

Reduction = Literal["none", "sum", "mean"]
Empty = Literal["zero", "nan"]
_PLAIN: Final = (Tensor, torch.nn.Parameter)


class Options(NamedTuple):
    """What every loss may be asked for.

    ``reduction``: "none" (one number for each element, or row), "sum", "mean". ``mask``: a bool tensor, of the shape of
    the unreduced loss or broadcast to it: what counts; the rest is exactly 0, and so is its gradient, even where the
    loss is NaN. ``num_items``: what the sum is divided by instead of the count (a number, or a tensor without axes).
    ``empty``: what a mean of nothing is.
    """

    reduction: Reduction = "mean"
    mask: Tensor | None = None
    num_items: float | Tensor | None = None
    empty: Empty = "zero"


def options_of(
    where: str, reduction: str, mask: Tensor | None, num_items: float | Tensor | None, empty: str
) -> Options:
    """Checked. Raises: UsageError."""
    if reduction not in get_args(Reduction):
        raise refusal(f"reduction is {reduction!r}", where=where, do='"none", "sum" or "mean"')
    if empty not in get_args(Empty):
        raise refusal(f"empty is {empty!r}", where=where, do='"zero" or "nan": what a mean of nothing is')
    if mask is not None and (not isinstance(mask, Tensor) or mask.dtype is not torch.bool):
        raise refusal(
            f"mask is {told(mask)}",
            where=where,
            why="a mask says of each element whether it counts",
            do="compare: mask=mask != 0",
        )
    if num_items is not None:
        if reduction != "mean":
            raise refusal(
                f"num_items is given, and reduction is {reduction!r}",
                where=where,
                why="num_items is what a mean is divided by",
                do='leave it out, or ask for reduction="mean"',
            )
        if isinstance(num_items, Tensor):
            if num_items.ndim:
                raise refusal(
                    f"num_items is {told(num_items)}", where=where, do="hand over one number: num_items.sum()"
                )
        elif not num_items >= 0:
            raise refusal(f"num_items is {num_items}", where=where, do="hand over how many items count, 0 or more")
    return Options(reduction, mask, num_items, empty)  # type: ignore[arg-type]  # checked above


def require_same_shape(where: str, **tensors: Tensor) -> None:
    """UsageError, where two differ: they would broadcast silently, or not at all."""
    (first, one), *others = tensors.items()
    for name, other in others:
        if other.shape != one.shape:
            line_up = (
                f"{name}.reshape({first}.shape)"
                if other.numel() == one.numel()
                else f"{name}.expand_as({first}), if that is meant"
            )
            raise refusal(
                f"{first} has shape {list(one.shape)}, {name} {list(other.shape)}",
                where=where,
                why="shapes that differ would broadcast silently, each element against every other",
                do=f"make them alike: {line_up}",
            )


def require_real(where: str, **tensors: object) -> None:
    """UsageError for what is no tensor of real numbers with a fraction (a prediction can't be integers)."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise refusal(f"{name} is {told(tensor)}", where=where, do=f"hand over a tensor: torch.as_tensor({name})")
        if not tensor.is_floating_point():
            raise refusal(
                f"{name} is {told(tensor)}",
                where=where,
                why="it has to be of real numbers",
                do=f"{name}.real" if tensor.is_complex() else f"{name}.float()",
            )


def require_positive(where: str, **numbers: float) -> None:
    """UsageError for a number that is not above 0."""
    for name, number in numbers.items():
        if not number > 0:
            raise refusal(f"{name} is {number}", where=where, do=f"hand over a number above 0 for {name}")


def require_not_negative(where: str, **numbers: float) -> None:
    """UsageError for a number below 0, or NaN."""
    for name, number in numbers.items():
        if not number >= 0:
            raise refusal(f"{name} is {number}", where=where, do=f"hand over 0 or more for {name}")


def are_values_to_be_read(tensors: Sequence[Tensor | None]) -> bool:
    """May the values be looked at without a cost: in eager mode on a CPU, tensors with numbers of their own?"""
    return are_for_kernels(tensors) and all(t is None or t.device.type == "cpu" for t in tensors)


def are_for_kernels(tensors: Sequence[Tensor | None]) -> bool:
    """In eager mode, tensors with numbers of their own, on one CPU or accelerator that there are kernels for?"""
    if is_dynamo_compiling() or is_transformed() or len_torch_dispatch_stack() or get_tracing_state() is not None:
        return False
    there = [t for t in tensors if t is not None]
    return all(type(t) in _PLAIN for t in there) and {t.device.type for t in there} in ({"cpu"}, {"cuda"}, set())


def first_place(bad: Tensor) -> str:
    """Where the first true element of a bool tensor is.

    >>> first_place(torch.tensor([[False, False], [False, True]]))
    '[1, 1]'
    """
    found = bad.nonzero()[0].tolist()
    return f"[{', '.join(map(str, found))}]" if found else "itself"


def refuse_values(where: str, faults: Mapping[str, tuple[str, Tensor, Tensor, str]]) -> None:
    """UsageError for the first fault that some element has. ``faults``: of each, what is wrong in words, the tensor,
    which of its elements, and what to do; the key is the argument's name."""
    for name, (what, tensor, bad, do) in faults.items():
        if bool(bad.any()):
            place = first_place(bad)
            value = tensor[bad][0].item() if tensor.ndim else tensor.item()
            raise refusal(
                f"{name} {what}: {value:.6g} at {place}",
                where=f"{where}, {name} {told(tensor)}, {int(bad.sum()):,} of {bad.numel():,} elements",
                do=do,
            )
