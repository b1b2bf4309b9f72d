"""Exercise 3: the cotangent, and who needs a gradient."""

from typing import Any

import torch
from torch import Tensor


class Product(torch.autograd.Function):
    """a · b, entry by entry."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        grad_a = cotangent * b if ctx.needs_input_grad[0] else None
        grad_b = cotangent * a if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
