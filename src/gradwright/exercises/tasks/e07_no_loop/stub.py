"""Exercise 7: without a loop. `gradwright exercise 7` grades this file."""

import torch
from torch import Tensor


def leaky_scale(x: Tensor, scale: Tensor) -> Tensor:
    """x · scale where x is positive, x / 10 elsewhere. Shapes: x [N, K], scale [K], result [N, K]."""
    rows, columns = x.shape
    result = torch.empty_like(x)
    for n in range(rows):
        for k in range(columns):
            result[n, k] = x[n, k] * scale[k] if x[n, k] > 0 else x[n, k] / 10
    return result
