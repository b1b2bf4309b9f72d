"""One-hot truth: a loop over every sample and output, one backward each."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot_jacobian(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    """dy[b] / dz[b], [B, *K, *D], by B * K backwards; both batches along axis 0."""
    rows = []
    for b in range(y.shape[0]):
        for k in range(y[b].numel()):
            (grad,) = torch.autograd.grad(
                y[b].reshape(-1)[k], z, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
            rows.append(torch.zeros_like(z[b]) if grad is None else grad[b])
    return torch.stack(rows).reshape(*y.shape, *z.shape[1:])
