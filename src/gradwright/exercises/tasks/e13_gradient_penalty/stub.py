"""Exercise 13: a gradient penalty that can be differentiated. `gradwright exercise 13` grades this file."""

from collections.abc import Callable

from torch import Tensor


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The mean of (‖d critic(x)[b] / dx[b]‖₂ - 1)². Shapes: x [B, D], critic(x) [B], result []."""
    raise NotImplementedError
