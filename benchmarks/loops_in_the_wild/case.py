"""What is told of a loop: how to call it, and what should become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Expected = Literal["rewrite", "decline"]


@dataclass(frozen=True)
class Draw:
    """Random inputs of one size, dtype and seed."""

    dtype: torch.dtype
    generator: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=self.dtype)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, dtype=self.dtype)

    def integers(self, high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)

    def signs(self, *shape: int) -> Tensor:
        return self.integers(2, *shape).to(self.dtype) * 2 - 1

    def positive_definite(self, n: int) -> Tensor:
        a = self.normal(n, n)
        return a @ a.T + n * torch.eye(n, dtype=self.dtype)


@dataclass(frozen=True)
class Case:
    """A function whose loop is to become array code, or is to be left alone.

    ``inputs(draw, n)``: its arguments; n is what the lengths grow with. ``size``: n at which it is diagnosed, large
    enough that the loop is worth a word; it is judged at other sizes. ``why``: of a loop to be declined, the reason.
    """

    function: Callable[..., Any]
    inputs: Callable[[Draw, int], tuple[Any, ...]]
    expected: Expected = "rewrite"
    size: int = 24
    why: str = ""

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, n: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Any, ...]:
        return self.inputs(Draw(dtype, torch.Generator().manual_seed(seed)), n)
