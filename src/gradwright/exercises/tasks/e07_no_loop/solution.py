"""Exercise 7: without a loop."""

import torch
from torch import Tensor


def leaky_scale(x: Tensor, scale: Tensor) -> Tensor:
    """x · scale where x is positive, x / 10 elsewhere. Shapes: x [N, K], scale [K], result [N, K]."""
    return torch.where(x > 0, x * scale, x / 10)
