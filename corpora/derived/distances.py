"""Distances, similarities and kernels."""

import torch
from torch import Tensor

from corpora.derived.forward import Forward, real, rows, square, unit


def pairwise_euclid(a: Tensor, b: Tensor) -> Tensor:
    difference = a[:, None, :] - b[None, :, :]
    return torch.sqrt((difference**2).sum(-1) + 1e-12)


def pairwise_squared(a: Tensor, b: Tensor) -> Tensor:
    return (a * a).sum(1)[:, None] - 2 * a @ b.T + (b * b).sum(1)[None, :]


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def cosine_matrix(a: Tensor, b: Tensor) -> Tensor:
    return (a / a.norm(dim=1, keepdim=True)) @ (b / b.norm(dim=1, keepdim=True)).T


def mahalanobis(x: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    """``factor``: a factor of the precision matrix."""
    z = (x - mean) @ factor
    return torch.sqrt((z**2).sum(-1))


def rbf_kernel(a: Tensor, b: Tensor, log_width: Tensor) -> Tensor:
    squared = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
    return torch.exp(-squared / (2 * log_width.exp() ** 2))


def soft_min(x: Tensor, temperature: float = 0.1) -> Tensor:
    return -temperature * torch.logsumexp(-x / temperature, dim=-1)


def manhattan(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs().sum(-1)


def minkowski(a: Tensor, b: Tensor, p: float = 3.0) -> Tensor:
    return ((a - b).abs() ** p).sum(-1) ** (1 / p)


def poincare(u: Tensor, v: Tensor) -> Tensor:
    squared = ((u - v) ** 2).sum(-1)
    inside = (1 - (u * u).sum(-1)) * (1 - (v * v).sum(-1))
    return torch.acosh(1 + 2 * squared / inside)


def soft_assignment(x: Tensor, centres: Tensor) -> Tensor:
    """Student's t kernel of deep embedded clustering."""
    q = 1 / (1 + (x.unsqueeze(1) - centres).pow(2).sum(2))
    return q / q.sum(1, keepdim=True)


def maximum_mean_discrepancy(a: Tensor, b: Tensor) -> Tensor:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return torch.exp(-((x[:, None] - y[None]) ** 2).sum(-1))

    return kernel(a, a).mean() + kernel(b, b).mean() - 2 * kernel(a, b).mean()


def _ball(*shape: int) -> Tensor:
    return (unit(*shape).detach() * 0.9 / shape[-1] ** 0.5).requires_grad_()


_PAIRS = (pairwise_euclid, pairwise_squared, cosine_matrix, maximum_mean_discrepancy)

FORWARDS = (
    *(Forward(function, lambda n: (real(square(n)[0], 4), real(square(n)[1], 4))) for function in _PAIRS),
    *(
        Forward(function, lambda n: (real(*rows(n)), real(*rows(n))))
        for function in (cosine_similarity, manhattan, minkowski)
    ),
    Forward(mahalanobis, lambda n: (real(*rows(n)), real(rows(n)[1]), real(rows(n)[1], rows(n)[1]))),
    Forward(rbf_kernel, lambda n: (real(square(n)[0], 4), real(square(n)[1], 4), real(1))),
    Forward(soft_min, lambda n: (real(*rows(n)),)),
    Forward(poincare, lambda n: (_ball(*rows(n)), _ball(*rows(n)))),
    Forward(soft_assignment, lambda n: (real(max(n // 32, 3), 4), real(8, 4))),
)
