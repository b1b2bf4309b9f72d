"""A row of the table of losses: a way to call one, and what it has to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """``loss``: of the tensors that ``draw`` makes (a generator, a dtype), the first ``wanted`` of which get gradients;
    all options are bound. ``unfused``: the same by plain torch, in float64, as somebody else has it (not our own
    ``reference``, where another's is at hand). ``on_kernels``: all laws are tried on kernels, each of which is compiled
    first; of the others, value and gradients in float32."""

    name: str
    loss: Callable[..., Tensor]
    unfused: Callable[..., Tensor]
    draw: Callable[[torch.Generator, torch.dtype], tuple[Tensor, ...]]
    wanted: int = 1
    tolerance: float = 4e-6
    on_kernels: bool = False

    def __str__(self) -> str:
        return self.name


def normal(*shape: int, scale: float = 2.0) -> Callable[[torch.Generator, torch.dtype], Tensor]:
    """Numbers of a normal distribution, of a dtype."""
    return lambda generator, dtype: (torch.randn(shape, generator=generator) * scale).to(dtype)


def uniform(*shape: int) -> Callable[[torch.Generator, torch.dtype], Tensor]:
    """Numbers from 0 to 1."""
    return lambda generator, dtype: torch.rand(shape, generator=generator).to(dtype)


def classes(count: int, *shape: int) -> Callable[[torch.Generator, torch.dtype], Tensor]:
    """Class numbers."""
    return lambda generator, _: torch.randint(0, count, shape, generator=generator)


def yes_or_no(*shape: int) -> Callable[[torch.Generator, torch.dtype], Tensor]:
    """0 or 1, as reals."""
    return lambda generator, dtype: torch.randint(0, 2, shape, generator=generator).to(dtype)


def drawn(
    *makers: Callable[[torch.Generator, torch.dtype], Tensor],
) -> Callable[[torch.Generator, torch.dtype], tuple[Tensor, ...]]:
    """All of them, one after the other."""
    return lambda generator, dtype: tuple(make(generator, dtype) for make in makers)
