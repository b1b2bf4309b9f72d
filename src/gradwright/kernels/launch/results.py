"""What is asked of a launch: the shape, dtype and factor of each result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradwright.errors import UsageError

Operand = Tensor | float  # a tensor of any real dtype and strides, or a Python number
PRECISIONS = (torch.float32, torch.float64)


class Result(NamedTuple):
    """One output of a program, as a tensor.

    ``shape`` has as many axes as the full shape (what the operands broadcast to), with 1 for an axis that is summed.
    ``factor`` multiplies the sum: 1 / n makes it a mean. ``like``: a tensor whose strides the result takes, where it
    has one place for each of its elements. The tensor comes without the axes ``removed`` (each of length 1), is new,
    and no view: autograd lets nobody change a view in place that a Function returned.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    factor: float | Tensor | None = None
    like: Tensor | None = None
    removed: tuple[int, ...] = ()

    @property
    def final(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple([size for axis, size in enumerate(self.shape) if axis not in self.removed])

    def summed_axes(self, full: Sequence[int]) -> tuple[int, ...]:
        """The axes of the full shape over which this result is a sum."""
        return tuple(k for k, (mine, all_) in enumerate(zip(self.shape, full, strict=True)) if mine != all_)


def full_shape(operands: Sequence[Operand]) -> tuple[int, ...]:
    """What the operands broadcast to."""
    return broadcast([operand.shape for operand in operands if isinstance(operand, Tensor)])


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What shapes broadcast to. (torch.broadcast_shapes imports sympy at its first call: 0.3 s.)

    Raises: UsageError, where they do not.
    """
    full = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, start=len(full) - len(shape)):
            if size != 1:
                if full[axis] not in (1, size):
                    raise UsageError(f"{', '.join(str(tuple(each)) for each in shapes)} do not broadcast")
                full[axis] = size
    return tuple(full)


def precision_of(operands: Sequence[Operand], results: Sequence[Result]) -> torch.dtype:
    """float64, where any operand or result is; else float32."""
    dtypes = [operand.dtype for operand in operands if isinstance(operand, Tensor)]
    dtypes += [result.dtype for result in results]
    return torch.float64 if torch.float64 in dtypes else torch.float32


def require_fitting(full: Sequence[int], results: Sequence[Result]) -> None:
    """UsageError, where a result's shape is no sum of the full one."""
    for result in results:
        fits = len(result.shape) == len(full)
        if not fits or any(mine not in (1, all_) for mine, all_ in zip(result.shape, full, strict=True)):
            raise UsageError(
                f"a result of shape {result.shape} was asked of operands that broadcast to {tuple(full)}: it must have "
                "as many axes, each as long or of length 1 (summed)"
            )
