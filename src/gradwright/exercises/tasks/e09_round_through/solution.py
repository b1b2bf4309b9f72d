"""Exercise 9: straight through a rounding."""

from torch import Tensor


def round_through(x: Tensor) -> Tensor:
    """round(x), whose gradient is taken to be that of x."""
    return x + (x.round() - x).detach()
