"""Losses of distributions."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from losses_at_work.peers import torchs
from losses_at_work.subject import CELLS, Subject, normal, uniform


def _logs_and_probabilities(generator: Generator, size: int) -> list[Tensor]:
    rows = size // 1_000
    return [
        normal(generator, rows, 1_000).log_softmax(1),
        normal(generator, rows, 1_000).softmax(1),
    ]


def _means_targets_variances(generator: Generator, size: int) -> list[Tensor]:
    return [normal(generator, size), normal(generator, size), uniform(generator, size) + 0.1]


def _kl(x: Tensor, t: Tensor) -> Tensor:
    return torch.where(t > 0, t * (t.log() - x), 0.0)


def _logits_and_probabilities(generator: Generator, size: int) -> list[Tensor]:
    rows = size // 1_000
    return [normal(generator, rows, 1_000), normal(generator, rows, 1_000).softmax(1)]


def _kl_of_logits(z: Tensor, t: Tensor) -> Tensor:
    return F.kl_div(z.log_softmax(1), t, reduction="batchmean")


def _gaussian(x: Tensor, y: Tensor, variance: Tensor) -> Tensor:
    v = variance.clamp_min(1e-6)
    return 0.5 * (v.log() + (x - y) ** 2 / v)


SUBJECTS = [
    Subject(
        "KL divergence",
        "element-wise",
        lambda losses: losses.KLDivLoss(),
        _logs_and_probabilities,
        _kl,
        {"F": torchs(F.kl_div)},
        cells=(*CELLS, "masked"),
    ),
    Subject(
        "KL divergence, logits of 1,000 classes",
        "row-wise",
        lambda losses: losses.KLDivLoss("batchmean", from_logits=True),
        _logits_and_probabilities,
        _kl_of_logits,
    ),
    Subject(
        "gaussian NLL",
        "element-wise",
        lambda losses: losses.GaussianNLLLoss(),
        _means_targets_variances,
        _gaussian,
        {"F": torchs(F.gaussian_nll_loss)},
        cells=(*CELLS, "masked"),
    ),
]
