"""Exercise 6: masks that complement one another."""

import torch
from torch import Tensor


def two_losses(prediction: Tensor, target: Tensor, trusted: Tensor) -> Tensor:
    """The mean of e² over the trusted entries plus the mean of |e| over the others; a mean over nothing is 0."""
    error = prediction - target
    return _mean_over(error**2, trusted) + _mean_over(error.abs(), ~trusted)


def _mean_over(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0).sum() / mask.sum().clamp(min=1)
