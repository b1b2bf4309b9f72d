"""The Tversky index of a class: with the sums of ``confusion``,

    D = TP + alpha FP + beta FN + smooth,        index = (TP + smooth) / D
    l = 1 - index = (alpha FP + beta FN) / D,
    dl/dTP = -l / D,      dl/dFP = alpha index / D,      dl/dFN = beta index / D

or of its logarithm, l = -log index: dl/dTP = 1/D - 1/(TP + smooth), dl/dFP = alpha / D, dl/dFN = beta / D. D and the
index under the logarithm are at least eps. A class that no target belongs to has loss 0, whatever is predicted.
alpha = beta = 1 is the Jaccard index, 1/2 the Dice coefficient. Tversky 1977, "Features of similarity", Psychological
Review 84(4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Tversky(NamedTuple):
    alpha: float
    beta: float
    smooth: float
    eps: float
    log_loss: bool = False


def by_hand(of: Tversky, tp: float, fp: float, fn: float) -> tuple[float, tuple[float, float, float]]:
    """The loss of a class and its slopes.

    >>> by_hand(Tversky(1.0, 1.0, 0.0, 1e-7), 2.0, 1.0, 1.0)
    (0.5, (-0.125, 0.125, 0.125))
    """
    if tp + fn <= 0:
        return 0.0, (0.0, 0.0, 0.0)
    hit, wrong = tp + of.smooth, of.alpha * fp + of.beta * fn
    whole = hit + wrong
    if whole < of.eps:  # held at eps, it does not change with FP and FN
        index = hit / of.eps
        if not of.log_loss:
            return 1 - index, (-1 / of.eps, 0.0, 0.0)
        if index >= of.eps:
            return -math.log(index), (-1 / hit, 0.0, 0.0)
        return -math.log(of.eps), (0.0, 0.0, 0.0)
    loss, index = wrong / whole, hit / whole
    if not of.log_loss:
        return loss, (-loss / whole, of.alpha * index / whole, of.beta * index / whole)
    if index < of.eps:
        return -math.log(of.eps), (0.0, 0.0, 0.0)
    return math.log1p(wrong / hit), (1 / whole - 1 / hit, of.alpha / whole, of.beta / whole)


def by_torch(of: Tversky, sums: Tensor) -> Tensor:
    """The same of tensors: [3 or more, C] to [C]. At eps it has the slope from above, in every torch: no clamp."""
    tp, fp, fn = sums[:3]
    is_there = tp + fn > 0
    hit, wrong = tp + of.smooth, of.alpha * fp + of.beta * fn
    is_low = hit + wrong < of.eps
    whole = torch.where(is_low, of.eps, hit + wrong)
    index = hit / whole
    if of.log_loss:
        losses = -torch.where(index < of.eps, of.eps, index).log()
    else:
        losses = torch.where(is_low, 1 - index, wrong / whole)
    return torch.where(is_there | losses.isnan(), losses, 0.0)
