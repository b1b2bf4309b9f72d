"""Exercise 7: without a loop. `gradwright exercise 7` grades this file."""

import torch
from torch import Tensor


def leaky_scale(x: Tensor, scale: Tensor) -> Tensor:
    """x · scale where x is positive, x / 10 elsewhere. Shapes: x [N, K], scale [K], result [N, K]."""
    result = torch.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                result[i, j] = x[i, j] * scale[j]
            else:
                result[i, j] = x[i, j] / 10
    return result
