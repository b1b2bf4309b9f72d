"""Exercise 4: a bias, the transpose of broadcasting."""

from typing import Any

import torch
from torch import Tensor


class AddBias(torch.autograd.Function):
    """x + bias. Shapes: bias broadcasts to that of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.shape = bias.shape
        return x + bias

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        return cotangent, _summed_to(cotangent, ctx.shape)


def _summed_to(cotangent: Tensor, shape: torch.Size) -> Tensor:
    """Over the axes in front that the shape lacks, then over those where it has 1."""
    extra = cotangent.dim() - len(shape)
    summed = cotangent.sum(dim=tuple(range(extra))) if extra else cotangent
    ones = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return summed.sum(dim=ones, keepdim=True) if ones else summed
