"""Exercise 14: softmax, a product and not a Jacobian. `gradwright exercise 14` grades this file."""

from typing import Any

import torch
from torch import Tensor


class Softmax(torch.autograd.Function):
    """The softmax over the last axis. Shapes: x [N, K], result [N, K]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        """Shapes: cotangent and the result [N, K]."""
        raise NotImplementedError
