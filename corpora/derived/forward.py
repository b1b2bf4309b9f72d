"""A forward as a user would write it, with inputs to call it with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Draw = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Forward:
    """``draw(elements)`` gives inputs of about that many elements in all large tensors; see ``inputs``."""

    function: Callable[..., Any]
    draw: Draw

    @property
    def name(self) -> str:
        return self.function.__name__

    def inputs(self, elements: int, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
        """The same inputs for the same number, floating-point ones in ``dtype``; the global generator is untouched."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(elements)
            return tuple(_cast(value, dtype) for value in self.draw(elements))


@dataclass(frozen=True)
class Refusal(Forward):
    """A forward that no backward can be written for. ``says``: a pattern that the error's message holds."""

    says: str


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if not isinstance(value, Tensor):
        return value
    cast = value.detach().to(dtype) if value.is_floating_point() else value.clone()
    return cast.requires_grad_(value.requires_grad)


# --- what inputs are made of -----------------------------------------------------------------------------------------


def real(*shape: int) -> Tensor:
    """Standard normal, a gradient is wanted."""
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def fixed(*shape: int) -> Tensor:
    """Standard normal, without a gradient: targets, masks, tables."""
    return torch.randn(shape, dtype=torch.float64)


def unit(*shape: int) -> Tensor:
    """In (0.05, 0.95), a gradient is wanted: probabilities, positive scales."""
    return (0.05 + 0.9 * torch.rand(shape, dtype=torch.float64)).requires_grad_()


def labels(classes: int, *shape: int) -> Tensor:
    return torch.randint(classes, shape)


def bits(*shape: int) -> Tensor:
    """0.0 or 1.0, without a gradient."""
    return torch.randint(2, shape).to(torch.float64)


def flags(*shape: int) -> Tensor:
    return torch.rand(shape) < 0.5


# --- shapes of about so many elements --------------------------------------------------------------------------------


def square(elements: int) -> tuple[int, int]:
    """Rows and columns, as many rows as columns or a few more."""
    columns = math.isqrt(elements)
    return elements // columns, columns


def of_scale(elements: int, least: int, more: int, most: int) -> int:
    """A length that differs between examples (below 50 elements), small and large inputs."""
    return least if elements < 50 else more if elements < 8192 else most


def rows(elements: int) -> tuple[int, int]:
    """A batch of rows (2 at least): of 8, 10 or 64 columns."""
    columns = of_scale(elements, 8, 10, 64)
    return max(elements // columns, 2), columns


def sequences(elements: int) -> tuple[int, int, int]:
    """Batch (2 at least), length, width: (b, 3, 4), (b, 5, 6) or (b, 128, 64)."""
    length, width = of_scale(elements, 3, 5, 128), of_scale(elements, 4, 6, 64)
    return max(elements // (length * width), 2), length, width


def images(elements: int) -> tuple[int, int, int, int]:
    """Batch (2 at least), 4 channels, height, width: 4 by 4, 6 by 6 or 32 by 32."""
    side = of_scale(elements, 4, 6, 32)
    return 2 + elements // (4 * side * side), 4, side, side
