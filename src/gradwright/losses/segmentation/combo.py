"""The combo loss: a cross entropy that weighs positives and negatives apart, and the Dice loss.

With the sums of ``confusion`` over a whole batch (w1 = beta, w0 = 1 - beta), for each class

    l = alpha CE / N + (1 - alpha) (1 - (2 TP + smooth) / max(2 TP + FP + FN + smooth, eps))
    CE = sum -beta t log p - (1 - beta) (1 - t) log (1 - p)

``cross_overlap`` has value and slopes. Taghanaki et al. 2019, "Combo loss: Handling input and output imbalance in
multi-organ segmentation", arXiv:1805.02798, equation 3, which has - dice for our 1 - dice: 1 - alpha lower, and the
same gradient. beta above 1/2 punishes false negatives more, below 1/2 false positives. (Kaggle's "Loss Function
Library" calls alpha CE_RATIO and beta ALPHA, and multiplies its second term by both ALPHA and 1 - ALPHA.) As in
``dice``, a class that no target belongs to has no Dice term.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative, require_positive
from gradwright.losses.common.module import Loss
from gradwright.losses.segmentation.confusion import arguments_of
from gradwright.losses.segmentation.cross_overlap import cross_overlap
from gradwright.losses.segmentation.of_sums import OfSums, loss_of_sums

_WHERE = "combo_loss(input, target)"
LabelMode = Literal["binary", "multilabel"]


def combo_loss(
    input: Tensor,
    target: Tensor,
    mode: LabelMode = "binary",
    from_logits: bool = True,
    smooth: float = 1.0,
    ignore_index: int | None = None,
    alpha: float = 0.5,
    beta: float = 0.5,
    *,
    eps: float = 1e-7,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """``alpha`` times the mean cross entropy, weighed by ``beta`` and 1 - ``beta``, and 1 - ``alpha`` times the Dice
    loss over the whole batch, for each class.

    Shapes: mode "binary": ``input`` and ``target`` alike; "multilabel": [N, C, *] both. ``from_logits``: the input is
    logits, not probabilities. ``smooth`` is added to numerator and denominator of the Dice coefficient, whose
    denominator is at least ``eps``. ``mask`` (bool) and ``ignore_index`` say which positions count.
    Result: the mean over classes, their sum, or [C] with ``reduction="none"``.
    Dtype: that of ``input``, float32 under autocast; the sums are float64. Coupling: statistics.
    Cost: two passes: 20 bytes an element of float32.
    Raises: UsageError, also for mode "multiclass", where beta has nothing to weigh.

    >>> import torch
    >>> combo_loss(torch.tensor([[[1e4, -3.0]]]), torch.tensor([[[1, 1]]]), smooth=0.0, beta=0.8).item()
    0.766009...
    """
    _require(mode, smooth, alpha, beta, eps)
    options_of(_WHERE, reduction, mask, None, empty)
    arguments = arguments_of(_WHERE, input, target, mode, from_logits, mask, ignore_index, (beta, 1 - beta))
    both = cross_overlap(alpha, 1 - alpha, smooth, eps)
    return loss_of_sums(arguments, OfSums(both.by_hand, both.by_torch, reduction, empty))


def _require(mode: str, smooth: float, alpha: float, beta: float, eps: float) -> None:
    if mode == "multiclass":
        raise refusal(
            'mode is "multiclass"',
            where=_WHERE,
            why="beta weighs the positions of a class against those that are not of it",
            do='bce_dice_loss(..., mode="multiclass", bce_weight=...), or labels [N, C, *] and mode="multilabel"',
        )
    require_not_negative(_WHERE, smooth=smooth)
    require_positive(_WHERE, eps=eps)
    for name, number in (("alpha", alpha), ("beta", beta)):
        if not 0.0 <= number <= 1.0:
            raise refusal(f"{name} is {number}", where=_WHERE, do="hand over a number from 0 to 1")


def reference(logits: Tensor, target: Tensor, smooth: float = 1.0, alpha: float = 0.5, beta: float = 0.5) -> Tensor:
    """The loss of every class, unfused: of logits and labels, both [N, C, *], where each class has some."""
    axes = [axis for axis in range(logits.ndim) if axis != 1]
    p = logits.sigmoid()
    dice = (2 * (p * target).sum(axes) + smooth) / (p.sum(axes) + target.sum(axes) + smooth)
    entropy = beta * target * F.softplus(-logits) + (1 - beta) * (1 - target) * F.softplus(logits)
    return alpha * entropy.mean(axes) + (1 - alpha) * (1 - dice)


class ComboLoss(Loss):
    """``combo_loss`` as a module.

    >>> import torch
    >>> ComboLoss(alpha=1.0, beta=0.5)(torch.zeros(1, 1, 4), torch.tensor([[[0, 1, 0, 1]]])).item()
    0.346573...
    """

    coupling = "statistics"

    def __init__(
        self,
        mode: LabelMode = "binary",
        from_logits: bool = True,
        smooth: float = 1.0,
        ignore_index: int | None = None,
        alpha: float = 0.5,
        beta: float = 0.5,
        *,
        eps: float = 1e-7,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        _require(mode, smooth, alpha, beta, eps)
        options_of(_WHERE, reduction, None, None, empty)
        self.mode: LabelMode = mode
        self.from_logits = from_logits
        self.smooth = smooth
        self.ignore_index = ignore_index
        self.alpha = alpha
        self.beta = beta
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return combo_loss(
            input,
            target,
            self.mode,
            self.from_logits,
            self.smooth,
            self.ignore_index,
            self.alpha,
            self.beta,
            eps=self.eps,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
