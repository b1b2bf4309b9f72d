"""Exercise 5: a Huber loss."""

import torch
from torch import Tensor


def huber(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """The mean of e² / 2 where |e| <= delta, and of delta · (|e| - delta / 2) elsewhere; e = prediction - target."""
    gap = (prediction - target).abs()
    return torch.where(gap > delta, delta * gap - delta**2 / 2, gap**2 / 2).mean()
