"""Exercise 15: the backward of a LayerNorm. `gradwright exercise 15` grades this file."""

from typing import Any

import torch
from torch import Tensor


class LayerNorm(torch.autograd.Function):
    """Each row of x, less its mean, over its deviation, times weight, plus bias. Shapes: x [N, K], the others [K]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """The gradients of x [N, K], weight [K] and bias [K]; None for eps."""
        raise NotImplementedError
