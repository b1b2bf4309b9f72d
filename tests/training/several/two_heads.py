"""A trunk with two heads: the loss "class" reaches the trunk and one head, "value" the trunk and the other."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORED = -100
Batch = tuple[Tensor, Tensor, Tensor]  # inputs [B, 4]; labels [B], some ignored; values [B]
COUNT = {"class": lambda batch: (batch[1] != IGNORED).sum(), "value": lambda batch: len(batch[2])}


class TwoHeads(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.labels, self.values = nn.Linear(8, 3), nn.Linear(8, 1)
        self.to(dtype)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.trunk(inputs)
        return self.labels(hidden), self.values(hidden).squeeze(-1)


def losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Sums over the items of the batch."""
    labels, values = model(batch[0])
    return {
        "class": F.cross_entropy(labels, batch[1], ignore_index=IGNORED, reduction="sum"),
        "value": F.mse_loss(values, batch[2], reduction="sum"),
    }


def drawn(sizes: tuple[int, ...], dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Batch]:
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for size in sizes:
        labels = torch.randint(0, 3, (size,), generator=generator)
        labels[torch.rand(size, generator=generator) < 0.3] = IGNORED
        inputs = torch.randn(size, 4, generator=generator, dtype=dtype)
        batches.append((inputs, labels, torch.randn(size, generator=generator, dtype=dtype)))
    return batches


def joined(batches: list[Batch]) -> Batch:
    inputs, labels, values = zip(*batches, strict=True)
    return torch.cat(inputs), torch.cat(labels), torch.cat(values)


def gradients(model: nn.Module, batch: Batch) -> dict[str, list[Tensor | None]]:
    """Of the full batch's mean losses, each by itself, for each parameter."""
    means: dict[str, Any] = {name: loss / COUNT[name](batch) for name, loss in losses(model, batch).items()}
    parameters = list(model.parameters())
    return {
        name: list(torch.autograd.grad(mean, parameters, retain_graph=True, allow_unused=True))
        for name, mean in means.items()
    }


def flat(tensors: Any) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in tensors])


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())
