"""Losses that are drawn at random, and whether they couple samples, by their gradients."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

N = 4  # samples; as many features and places, so that sizes tell nothing
Step = Callable[[Tensor], Tensor]

_POINTWISE: list[tuple[str, Step]] = [
    ("tanh", torch.tanh),
    ("exp", lambda x: (0.3 * x).exp()),
    ("square", lambda x: x**2),
    ("root", lambda x: (x.abs() + 1).sqrt()),
    ("log", lambda x: (x * x + 1).log()),
    ("relu", torch.relu),
    ("times 2", lambda x: 2 * x),
    ("less 1", lambda x: x - 1),
    ("weighted", lambda x: x * torch.linspace(1, 2, x.numel(), dtype=x.dtype).view(x.shape)),
]


def _along(draws: random.Random, ndim: int) -> list[tuple[str, Step]]:
    dim = draws.randrange(ndim)
    return [
        (f"sum {dim}", lambda x: x.sum(dim)),
        (f"mean {dim}", lambda x: x.mean(dim)),
        (f"logsumexp {dim}", lambda x: x.logsumexp(dim)),
        (f"norm {dim}", lambda x: x.norm(dim=dim)),
        (f"max {dim}", lambda x: x.max(dim).values),
        (f"std {dim}", lambda x: x.std(dim)),
    ]


def _shaped(draws: random.Random, ndim: int) -> list[tuple[str, Step]]:
    dim, other = draws.randrange(ndim), draws.randrange(ndim)
    kept: list[tuple[str, Step]] = [
        (f"softmax {dim}", lambda x: x.softmax(dim)),
        (f"log_softmax {dim}", lambda x: x.log_softmax(dim)),
        (f"transpose {dim} {other}", lambda x: x.transpose(dim, other)),
        (f"centre {dim}", lambda x: x - x.mean(dim, keepdim=True)),
        (f"over its sum {dim}", lambda x: x / (x.abs().sum(dim, keepdim=True) + 1)),
        (f"over its root {dim}", lambda x: x / (x.square().sum(dim, keepdim=True) + 1).sqrt()),
        (f"two of it {dim}", lambda x: torch.cat([x, x.tanh()], dim)),
        (f"half of it {dim}", lambda x: x.narrow(dim, 0, max(x.shape[dim] // 2, 1))),
    ]
    if ndim == 2:
        kept += [
            ("similarities", lambda x: x @ x.T),
            ("correlations", lambda x: x.T @ x),
            ("differences", lambda x: x.unsqueeze(0) - x.unsqueeze(1)),
            ("one row", lambda x: x.reshape(-1)),
        ]
    if ndim == 3:
        kept += [
            ("products", lambda x: x @ x.transpose(1, 2)),
            ("flat rows", lambda x: x.flatten(1)),
            ("flat samples", lambda x: x.flatten(0, 1)),
        ]
    return kept


_SCALARS: list[tuple[str, Step]] = [
    ("as it is", lambda x: x),
    ("root", lambda x: (x.abs() + 1).sqrt()),
    ("log", lambda x: (x * x + 1).log()),
    ("times 0.5", lambda x: 0.5 * x),
]


class Loss:
    """``text``: its steps. ``of``: of the network's output, [N, 4] or [N, 4, 3]."""

    def __init__(self, seed: int) -> None:
        draws = random.Random(seed)
        self.shape = draws.choice([(N, 4), (N, 4, 4)])
        ndim, self.steps = len(self.shape), []
        while ndim and len(self.steps) < 7:
            kind = draws.random()
            if kind < 0.35:
                self.steps.append(draws.choice(_POINTWISE))
            elif kind < 0.7:
                self.steps.append(draws.choice(_shaped(draws, ndim)))
            else:
                self.steps.append(draws.choice(_along(draws, ndim)))
            ndim = self._made(torch.randn(self.shape)).dim()
        reduce: tuple[str, Any] = draws.choice([("mean", torch.mean), ("sum", torch.sum)])
        self.steps += [reduce, draws.choice(_SCALARS)]
        self.text = ", ".join(name for name, _ in self.steps)

    def _made(self, x: Tensor) -> Tensor:
        for _, step in self.steps:
            x = step(x)
        return x

    def of(self, x: Tensor) -> Tensor:
        return self._made(x)

    def of_network(self) -> Tensor:
        """With the graph of a network behind it."""
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, self.shape[-1]))
        return self.of(net(torch.randn(*self.shape[:-1], 5)))

    def is_coupled(self) -> bool | None:
        """Whether a sample's gradient changes where another's output does; None, where there is no gradient: what was
        drawn cancels (the sum of a softmax)."""
        generator = torch.Generator().manual_seed(1)

        def drawn() -> Tensor:
            return torch.randn(self.shape, generator=generator, dtype=torch.float64) * 2

        def gradient(x: Tensor) -> Tensor:
            leaf = x.clone().requires_grad_()
            value = self.of(leaf)
            return torch.autograd.grad(value, leaf)[0] if value.requires_grad else torch.zeros_like(x)

        sizes = []
        for _ in range(3):
            before, other = drawn(), drawn()
            known = gradient(before)
            sizes.append(float(known.abs().max()))
            for changed in range(N):
                after = before.clone()
                after[changed] = other[changed]
                keep = [sample for sample in range(N) if sample != changed]
                if not torch.allclose(gradient(after)[keep], known[keep], rtol=1e-9, atol=1e-11):
                    return True
        return False if max(sizes) > 1e-9 else None
