"""Exercise 4: a bias, the transpose of broadcasting. `gradwright exercise 4` grades this file."""

from typing import Any

import torch
from torch import Tensor


class AddBias(torch.autograd.Function):
    """x + bias. Shapes: bias broadcasts to that of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of x and of bias, each with the shape of its own."""
        raise NotImplementedError
