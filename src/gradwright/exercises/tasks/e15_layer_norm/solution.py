"""Exercise 15: the backward of a LayerNorm."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class LayerNorm(torch.autograd.Function):
    """Each row of x, less its mean, over its deviation, times weight, plus bias. Shapes: x [N, K], the others [K]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        r = (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
        n = centred * r
        ctx.save_for_backward(n, r, weight)
        return n * weight + bias

    @staticmethod
    @once_differentiable  # n and r were computed in the forward: autograd would take them for constants
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """x reaches y directly, by the mean of its row, and by its variance: three terms."""
        n, r, weight = ctx.saved_tensors
        scaled = cotangent * weight
        by_mean = scaled.mean(dim=-1, keepdim=True)
        by_variance = n * (scaled * n).mean(dim=-1, keepdim=True)
        return r * (scaled - by_mean - by_variance), (cotangent * n).sum(dim=0), cotangent.sum(dim=0), None
