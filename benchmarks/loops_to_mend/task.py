"""What is measured of one loop: it, an expert's version of it, and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Arguments = tuple[Any, ...]


def drawn(*shape: int, positive: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.rand(shape, generator=generator) + 0.1 if positive else torch.randn(shape, generator=generator)


def chosen(high: int, count: int) -> torch.Tensor:
    return torch.randint(high, (count,), generator=torch.Generator().manual_seed(high + count))


@dataclass(frozen=True)
class Task:
    """``loop`` and ``expert`` are functions or Function classes of the same arguments.

    ``inputs(n)`` makes them; ``size``: n at which they are timed; ``small``: at which the loop is diagnosed.
    ``backward``: whether the gradient belongs to it. ``compiled``: Numba of the loop as it stands, over NumPy arrays,
    forward only, where Numba takes it.
    """

    name: str
    loop: Any
    expert: Any
    inputs: Callable[[int], Arguments]
    size: int
    small: int
    backward: bool = True
    compiled: Callable[..., Any] | None = None
    carried: bool = False
