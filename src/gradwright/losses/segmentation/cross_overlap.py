"""A weighted sum of a cross entropy and a Dice loss, of the sums of ``confusion`` (``bce_dice`` and ``combo``):

    l = u CE / N + v (1 - (2 TP + smooth) / max(2 TP + FP + FN + smooth, eps)),        dl/dCE = u / N

for each class. Of class numbers, where a row's CE is counted once for its class alone, u is C times as large, so that
the mean over classes has the mean over rows. Where no position counts, CE / N is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradwright.losses.segmentation.tversky_index import Tversky, by_hand, by_torch


class CrossOverlap(NamedTuple):
    """``entropy``: u above; ``overlap``: v."""

    entropy: float
    overlap: float
    dice: Tversky

    def by_hand(self, sums: Sequence[float]) -> tuple[float, Sequence[float]]:
        """The loss of a class and its slopes by TP, FP, FN and CE."""
        tp, fp, fn, ce, count = sums
        loss, slopes = by_hand(self.dice, tp, fp, fn)
        share = self.entropy / count if count else 0.0
        return self.overlap * loss + share * ce, [*[self.overlap * slope for slope in slopes], share]

    def by_torch(self, sums: Tensor) -> Tensor:
        """The same of tensors, [5, C] to [C]."""
        ce, count = sums[3], sums[4]
        share = torch.where(count > 0, self.entropy / count.clamp_min(1), 0.0)
        return self.overlap * by_torch(self.dice, sums) + share * ce


def cross_overlap(entropy: float, overlap: float, smooth: float, eps: float) -> CrossOverlap:
    """The Dice coefficient is the Tversky index of alpha = beta = 1/2, with half its smooth and eps."""
    return CrossOverlap(entropy, overlap, Tversky(0.5, 0.5, smooth / 2, eps / 2))
