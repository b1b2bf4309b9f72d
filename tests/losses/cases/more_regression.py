"""Losses of a real prediction and target, besides Huber's."""

import math
from functools import partial

import torch
from tests.losses.case import Case, drawn, normal, uniform
from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.regression.barron import general_robust_loss
from gradwright.losses.regression.log_cosh import log_cosh_loss
from gradwright.losses.regression.pseudo_huber import pseudo_huber_loss
from gradwright.losses.regression.quantile import quantile_loss
from gradwright.losses.regression.smooth_l1 import smooth_l1_loss

_PAIR = drawn(normal(6, 7), normal(6, 7))
_WEIGHED = drawn(normal(6, 7), normal(6, 7), uniform(7))
_LEVELS = torch.tensor([0.1, 0.5, 0.9])


def _charbonnier(x: Tensor, y: Tensor, delta: float = 1.0) -> Tensor:
    return delta**2 * (torch.sqrt(1 + ((x - y) / delta) ** 2) - 1)


def _pinball(x: Tensor, y: Tensor, q: float | Tensor) -> Tensor:
    return torch.maximum(q * (y - x), (q - 1) * (y - x))


def _barron(x: Tensor, y: Tensor, alpha: float, scale: float) -> Tensor:
    """Equation 8 of arXiv:1701.03077."""
    u = ((x - y) / scale) ** 2
    if alpha == 0:
        return torch.log(u / 2 + 1)
    if alpha == -math.inf:
        return 1 - torch.exp(-u / 2)
    b = abs(alpha - 2)
    return b / alpha * ((u / b + 1) ** (alpha / 2) - 1)


def _robust(alpha: float, scale: float) -> Case:
    return Case(f"general robust, alpha={alpha:g}", partial(general_robust_loss, alpha=alpha, scale=scale),
                lambda x, y: _barron(x, y, alpha, scale).mean(), _PAIR)  # fmt: skip


CASES = [
    Case("pseudo-huber", pseudo_huber_loss, lambda x, y: _charbonnier(x, y).mean(), _PAIR, wanted=2),
    Case("pseudo-huber, delta, weighted, none", lambda x, y, w: pseudo_huber_loss(x, y, "none", 0.3, w),
         lambda x, y, w: _charbonnier(x, y, 0.3) * w, _WEIGHED),
    Case("smooth l1", smooth_l1_loss, F.smooth_l1_loss, _PAIR, wanted=2),
    Case("smooth l1, beta=0, sum", partial(smooth_l1_loss, beta=0.0, reduction="sum"),
         partial(F.smooth_l1_loss, beta=0.0, reduction="sum"), _PAIR),
    Case("smooth l1, beta, masked", lambda x, y: smooth_l1_loss(x, y, beta=2.5, mask=y > 0),
         lambda x, y: F.smooth_l1_loss(x[y > 0], y[y > 0], beta=2.5), _PAIR),
    Case("log-cosh", log_cosh_loss, lambda x, y: torch.log(torch.cosh(x - y)).mean(), _PAIR, wanted=2),
    Case("log-cosh, weighted, num_items", lambda x, y, w: log_cosh_loss(x, y, weight=w, num_items=100),
         lambda x, y, w: (torch.log(torch.cosh(x - y)) * w).sum() / 100, _WEIGHED),
    Case("quantile", partial(quantile_loss, q=0.9), lambda x, y: _pinball(x, y, 0.9).mean(), _PAIR, wanted=2),
    Case("quantile, several levels of one target", lambda x, y: quantile_loss(x, y, "none", q=_LEVELS.to(x.device)),
         lambda x, y: _pinball(x, y, _LEVELS.to(x)), drawn(normal(6, 7, 3), normal(6, 7, 1)), wanted=2, tolerance=1e-5),
    _robust(1.0, 1.0),
    _robust(1.9, 0.5),
    _robust(0.0, 0.5),
    _robust(-2.0, 2.0),
    _robust(-math.inf, 2.0),
]  # fmt: skip
