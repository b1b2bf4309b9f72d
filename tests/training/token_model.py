"""A small model of tokens with ignored labels, and the full batch's gradient that micro-batches have to give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES, CLASSES, IGNORED = 4, 5, -100
Batch = tuple[Tensor, Tensor]


def model_of(dtype: torch.dtype = torch.float64, *, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES)).to(dtype)


def drawn(sizes: Sequence[int], dtype: torch.dtype, seed: int, *, empty: Sequence[int] = ()) -> list[Batch]:
    """Batches of such sizes, a third of their labels ignored; of those in ``empty`` all."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for at, size in enumerate(sizes):
        x = torch.randn(size, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
        labels = torch.randint(0, CLASSES, (size,), generator=generator)
        ignored = torch.rand(size, generator=generator) < 0.33
        labels[ignored] = IGNORED
        if size and ignored.all() and at not in empty:
            labels[0] = 0
        batches.append((x, torch.full_like(labels, IGNORED) if at in empty else labels))
    return batches


def kept(batch: Batch) -> Tensor:
    return (batch[1] != IGNORED).sum()


def cross_entropy(model: Callable[[Tensor], Tensor], batch: Batch, reduction: str) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction=reduction, ignore_index=IGNORED)


def joined(batches: Sequence[Batch]) -> Batch:
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


def flat(parameters: Any) -> Tensor:
    """The gradients of parameters in one row, whole where they are sharded; zeros where there is none."""
    parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
    whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in parts]
    return torch.cat([one.reshape(-1).double() for one in whole])


def full_gradient(batches: Sequence[Batch], dtype: torch.dtype) -> Tensor:
    model = model_of(dtype)
    cross_entropy(model, joined(batches), "mean").backward()
    return flat(model.parameters())


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())
