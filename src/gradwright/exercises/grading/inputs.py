"""Drawn inputs: new ones for every grading, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Leaves: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """One call. ``make(dtype)`` makes its arguments anew each time; ``dtype`` is what the learner's code gets.

    ``leaves``: with respect to what the gradient is asked, by name; ``None``: all arguments that require one.
    ``within``: a tolerance of its own, where the precision allows no other.
    """

    label: str
    make: Callable[[torch.dtype], tuple[Any, ...]]
    dtype: torch.dtype = torch.float64
    leaves: Callable[[tuple[Any, ...]], Leaves] | None = None
    within: float | None = None

    def args(self) -> tuple[Any, ...]:
        return self.make(self.dtype)

    def exact(self) -> tuple[Any, ...]:
        return self.make(torch.float64)

    @property
    def tolerance(self) -> float:
        """Of the largest entry; what single precision loses in a sum over a row lies far below."""
        if self.within is not None:
            return self.within
        return 1e-9 if self.dtype is torch.float64 else 1e-4

    def leaves_of(self, args: tuple[Any, ...], names: tuple[str, ...]) -> Leaves:
        if self.leaves is not None:
            return self.leaves(args)
        named = zip(names, args, strict=False)
        return {name: arg for name, arg in named if isinstance(arg, Tensor) and arg.requires_grad}


class Draws:
    """Random tensors from one seed.

    >>> torch.equal(Draws(3).normal(2), Draws(3).normal(2))
    True
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0, grad: bool = True) -> Tensor:
        """Standard normal times ``scale``, float64."""
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        return drawn.requires_grad_(grad)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=self.generator, dtype=torch.float64))

    def integers(self, most: int, *shape: int) -> Tensor:
        """Of 0 .. most - 1."""
        return torch.randint(most, shape, generator=self.generator)

    def mask(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator) < 0.5


def case(
    label: str,
    *args: Any,
    dtype: torch.dtype = torch.float64,
    view: Callable[[Tensor], Tensor] | None = None,
    within: float | None = None,
) -> Case:
    """A call with these arguments; ``view`` gives each floating-point tensor its layout (``Tensor.t``)."""

    def make(kind: torch.dtype) -> tuple[Any, ...]:
        return tuple(_anew(arg, kind, view) for arg in args)

    return Case(label, make, dtype, within=within)


def _anew(arg: Any, kind: torch.dtype, view: Callable[[Tensor], Tensor] | None) -> Any:
    if not isinstance(arg, Tensor):
        return arg
    fresh = arg.detach().clone(memory_format=torch.contiguous_format)
    if not arg.is_floating_point():
        return fresh
    # Drawn values are rounded to single precision first, so that both precisions are given the same number.
    laid_out = view(fresh.float().to(kind)) if view is not None else fresh.float().to(kind)
    return laid_out.detach().requires_grad_(arg.requires_grad)
