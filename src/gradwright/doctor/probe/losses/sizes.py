"""Predictions of a size, where losses break."""

from __future__ import annotations

import torch
from torch import Tensor


def of_size(prediction: Tensor, size: float) -> Tensor:
    """As the prediction is, with numbers of that size and either sign."""
    signs = torch.randint(0, 2, prediction.shape, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    return (signs * size).to(prediction.dtype).requires_grad_(prediction.requires_grad)
