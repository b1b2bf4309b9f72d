"""Losses of policies."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from losses_at_work.subject import CELLS, Subject, normal, uniform


def _chosen(generator: Generator, size: int) -> list[Tensor]:
    """Log probabilities of the actions taken, returns, baselines."""
    return [-uniform(generator, size), normal(generator, size), normal(generator, size)]


def _ratios(generator: Generator, size: int) -> list[Tensor]:
    """Log probabilities now and then, advantages."""
    then = -uniform(generator, size)
    return [then + 0.2 * torch.randn(size, generator=generator), then, normal(generator, size)]


def _reinforce(log_p: Tensor, gain: Tensor, baseline: Tensor) -> Tensor:
    return -(gain - baseline) * log_p


def _ppo(log_p: Tensor, before: Tensor, advantage: Tensor) -> Tensor:
    ratio = torch.exp(log_p - before)
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)


SUBJECTS = [
    Subject(
        "REINFORCE with baseline",
        "element-wise",
        lambda losses: losses.REINFORCELoss(),
        _chosen,
        _reinforce,
        cells=(*CELLS, "masked"),
    ),
    Subject(
        "PPO clip",
        "element-wise",
        lambda losses: losses.PPOClipLoss(0.2),
        _ratios,
        _ppo,
        cells=(*CELLS, "masked"),
    ),
]
