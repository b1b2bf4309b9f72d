"""Losses of adversaries."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from losses_at_work.subject import Subject, normal


def _scores(generator: Generator, size: int) -> list[Tensor]:
    """Of real samples and of made ones."""
    return [normal(generator, size // 2), normal(generator, size // 2)]


SUBJECTS = [
    Subject(
        "WGAN, critic",
        "other",
        lambda losses: losses.WGANCriticLoss(),
        _scores,
        lambda real, made: made.mean() - real.mean(),
        wanted=2,
    ),
    Subject(
        "hinge GAN, critic",
        "other",
        lambda losses: losses.HingeGANDiscriminatorLoss(),
        _scores,
        lambda real, made: torch.relu(1 - real).mean() + torch.relu(1 + made).mean(),
        wanted=2,
    ),
]
