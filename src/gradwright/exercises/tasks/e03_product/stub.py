"""Exercise 3: the cotangent, and who needs a gradient. `gradwright exercise 3` grades this file."""

from typing import Any

import torch
from torch import Tensor


class Product(torch.autograd.Function):
    """a · b, entry by entry."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of a and of b; None for the one that is not needed."""
        raise NotImplementedError
