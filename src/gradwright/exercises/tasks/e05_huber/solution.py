"""Exercise 5: a Huber loss."""

import torch
from torch import Tensor


def huber(prediction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """The mean of e² / 2 where |e| <= delta, and of delta · (|e| - delta / 2) elsewhere; e = prediction - target."""
    error = (prediction - target).abs()
    return torch.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta)).mean()
