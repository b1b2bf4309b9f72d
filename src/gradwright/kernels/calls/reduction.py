"""Which axes are reduced, and what is left of a shape."""

from __future__ import annotations

import math
from typing import NamedTuple

from gradwright.kernels.calls.messages import refusal

Shape = tuple[int, ...]


class Axes(NamedTuple):
    """``reduced``: axes of the full shape. ``kept``: that shape, 1 where it is reduced. ``removed``: axes of ``kept``
    that the caller does not get."""

    full: Shape
    reduced: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    @property
    def kept(self) -> Shape:
        return tuple(1 if axis in self.reduced else size for axis, size in enumerate(self.full))

    @property
    def elements(self) -> int:
        """How many elements go into each result."""
        return math.prod(self.full[axis] for axis in self.reduced)

    @property
    def is_scalar(self) -> bool:
        """Is all reduced to one number?"""
        return len(self.reduced) == len(self.full)


def axes_of(full: Shape, dim: tuple[int, ...] | None, keepdim: bool, where: str) -> Axes:
    """The axes named by ``dim``; all of them for ``None``.  Raises: UsageError, where there is no such axis, or it is
    named twice.

    >>> axes_of((2, 3), (-1,), False, "f(x)").kept
    (2, 1)
    """
    ndim = len(full)
    if dim is None:
        reduced = tuple(range(ndim))
    else:
        for axis in dim:
            if not -max(ndim, 1) <= axis < max(ndim, 1):  # as in torch, a shape without axes takes 0 and -1
                raise refusal(
                    f"dim {axis} is none of the {ndim} axes to which the inputs broadcast",
                    where=where,
                    do=f"name one from {-ndim} to {ndim - 1}" if ndim else "leave dim out",
                )
        found = [axis % max(ndim, 1) for axis in dim]
        if len(set(found)) < len(found):
            raise refusal(f"dim {dim} names one of {ndim} axes twice", where=where, do="name each axis once")
        reduced = tuple(sorted(found)) if ndim else ()
    return Axes(full, reduced, () if keepdim else reduced)
