"""Exercise 13: a gradient penalty that can be differentiated."""

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The mean of (‖d critic(x)[b] / dx[b]‖₂ - 1)². Shapes: x [B, D], critic(x) [B], result []."""
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return ((torch.linalg.vector_norm(slope, dim=1) - 1) ** 2).mean()
