"""Networks, losses of whole batches, and their gradient in one graph: what an update has to equal."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradwright import losses
from gradwright.training import GradientAccumulator

CLASSES = 4


class Net(nn.Module):
    """``drops``: a dropout. ``norms``: a BatchNorm, whose statistics are those of the micro-batch."""

    def __init__(self, drops: float = 0.0, norms: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(5, 16)
        self.norm = nn.BatchNorm1d(16) if norms else nn.Identity()
        self.drop = nn.Dropout(drops)
        self.last = nn.Linear(16, CLASSES)
        self.temperature = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(x)).tanh()))


def net(dtype: torch.dtype = torch.float64, **options: Any) -> Net:
    torch.manual_seed(0)
    return Net(**options).to(dtype)


def batch(samples: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 5, generator=generator).to(dtype), torch.arange(samples) % CLASSES


def pieces(of: tuple[Tensor, ...], sizes: list[int]) -> list[tuple[Tensor, ...]]:
    return list(zip(*[one.split(sizes) for one in of], strict=True))


def pearson(z: Tensor, y: Tensor) -> Tensor:
    a, b = z[:, 0] - z[:, 0].mean(), z[:, 1] - z[:, 1].mean()
    return 1 - (a * b).sum() / (a.norm() * b.norm())


def supervised(z: Tensor, y: Tensor) -> Tensor:
    unit = F.normalize(z, dim=1)
    others = 1 - torch.eye(len(z), dtype=z.dtype)
    logits = unit @ unit.T / 0.3
    logarithms = logits - (logits.exp() * others).sum(1, keepdim=True).log()
    same = (y[:, None] == y).to(z.dtype) * others
    return -((same * logarithms).sum(1) / same.sum(1).clamp_min(1)).mean()


def batch_hard(z: Tensor, y: Tensor) -> Tensor:
    far, same = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist"), y[:, None] == y
    return F.relu(far.masked_fill(~same, -1e9).amax(1) - far.masked_fill(same, 1e9).amin(1) + 1).mean()


#: Of logits [N, C] and labels [N].
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dice": lambda z, y: losses.dice_loss(z, y, "multiclass"),
    "jaccard": lambda z, y: losses.jaccard_loss(z, y, "multiclass"),
    "tversky": lambda z, y: losses.tversky_loss(z, y, "multiclass"),
    "lovasz": lambda z, y: losses.lovasz_softmax_loss(z, y),
    "info nce": lambda z, y: losses.info_nce_loss(z, z.roll(1, 1), temperature=0.5),
    "supervised contrastive": supervised,
    "batch hard": batch_hard,
    "pearson": pearson,
    "root of the mean square": lambda z, y: F.mse_loss(z, F.one_hot(y, CLASSES).to(z.dtype)).sqrt(),
    "cross entropy": F.cross_entropy,
}


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([
        torch.zeros_like(one).reshape(-1) if one.grad is None else one.grad.reshape(-1) for one in model.parameters()
    ])  # fmt: skip


def error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def in_one_graph(
    model: nn.Module, micro_batches: list[Any], forward: Callable[[Any], Any], loss: Callable[..., Tensor]
) -> Tensor:
    """The loss of the outputs of all micro-batches, run one after the other, each with its graph; its gradient."""
    outputs = [forward(one) for one in micro_batches]
    value = loss(*[torch.cat(parts) for parts in zip(*outputs, strict=True)])
    value.backward()
    return value.detach()


def accumulator(model: nn.Module, steps: int, **options: Any) -> GradientAccumulator:
    return GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=steps, progress=False, **options
    )


def random_sizes(samples: int, seed: int) -> list[int]:
    draws = random.Random(seed)
    cuts = sorted(draws.sample(range(1, samples), draws.randint(1, 4)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, samples], strict=True)]
