"""Exercise 6: masks that complement one another. `gradwright exercise 6` grades this file."""

from torch import Tensor


def two_losses(prediction: Tensor, target: Tensor, trusted: Tensor) -> Tensor:
    """The mean of e² over the trusted entries plus the mean of |e| over the others; a mean over nothing is 0."""
    raise NotImplementedError
