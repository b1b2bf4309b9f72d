"""Exercise 12: the Jacobian of every sample. `gradwright exercise 12` grades this file."""

from torch import Tensor


def batch_jacobian(y: Tensor, z: Tensor) -> Tensor:
    """dy[b, k] / dz[b, d]. Shapes: y [B, K], z [B, D], result [B, K, D]. The graph of y stays."""
    raise NotImplementedError
