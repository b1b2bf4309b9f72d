"""Exercise 9: straight through a rounding. `gradwright exercise 9` grades this file."""

from torch import Tensor


def round_through(x: Tensor) -> Tensor:
    """round(x), whose gradient is taken to be that of x."""
    raise NotImplementedError
