"""Exercise 12: the Jacobian of every sample."""

import torch
from torch import Tensor


def batch_jacobian(y: Tensor, z: Tensor) -> Tensor:
    """dy[b, k] / dz[b, d]. Shapes: y [B, K], z [B, D], result [B, K, D]. The graph of y stays."""
    rows = [torch.autograd.grad(y[:, k].sum(), z, retain_graph=True)[0] for k in range(y.shape[1])]
    return torch.stack(rows, dim=1)
