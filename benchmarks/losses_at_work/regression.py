"""Regression: element-wise, a prediction and a target of the same shape."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from losses_at_work.peers import kornia, torchs
from losses_at_work.subject import ELEMENTWISE_CELLS, Subject, pair


def _huber(x: Tensor, y: Tensor) -> Tensor:
    e = (x - y).abs()
    return torch.where(e <= 1.0, 0.5 * e**2, e - 0.5)


def _pseudo_huber(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt(1 + (x - y) ** 2) - 1


def _smooth_l1(x: Tensor, y: Tensor) -> Tensor:
    e = (x - y).abs()
    return torch.where(e < 0.5, e**2, e - 0.25)


def _log_cosh(x: Tensor, y: Tensor) -> Tensor:
    e = (x - y).abs()
    return e + torch.log1p(torch.exp(-2 * e)) - math.log(2)


def _quantile(x: Tensor, y: Tensor) -> Tensor:
    e = y - x
    return 0.9 * torch.relu(e) + 0.1 * torch.relu(-e)


def _barron(x: Tensor, y: Tensor) -> Tensor:
    alpha = 1.3
    b = abs(alpha - 2)
    return b / alpha * (((x - y) ** 2 / b + 1) ** (alpha / 2) - 1)


SUBJECTS = [
    Subject(
        "huber",
        "element-wise",
        lambda losses: losses.HuberLoss(),
        pair,
        _huber,
        {"F": torchs(F.huber_loss)},
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "pseudo-huber",
        "element-wise",
        lambda losses: losses.PseudoHuberLoss(),
        pair,
        _pseudo_huber,
        {"kornia": kornia(lambda k: k.charbonnier_loss)},
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "smooth L1",
        "element-wise",
        lambda losses: losses.SmoothL1Loss(beta=0.5),
        pair,
        _smooth_l1,
        {"F": torchs(lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.5))},
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "log-cosh",
        "element-wise",
        lambda losses: losses.LogCoshLoss(),
        pair,
        _log_cosh,
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "quantile",
        "element-wise",
        lambda losses: losses.QuantileLoss(q=0.9),
        pair,
        _quantile,
        cells=ELEMENTWISE_CELLS,
    ),
    Subject(
        "general robust",
        "element-wise",
        lambda losses: losses.GeneralRobustLoss(alpha=1.3),
        pair,
        _barron,
        cells=ELEMENTWISE_CELLS,
    ),
]
