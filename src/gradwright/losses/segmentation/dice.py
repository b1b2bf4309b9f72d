"""The Dice loss: one minus the Dice coefficient of prediction and target.

With the sums I, P, T of ``overlap`` over a whole batch, for each class

    dice = (2 I + smooth) / max(P + T + smooth, eps),        l = 1 - dice   (or -log dice)
    dl/dI = -2 / (P + T + smooth),                           dl/dP = (2 I + smooth) / (P + T + smooth)²

A class that no target belongs to has loss 0, whatever is predicted: what it would reward is predicting nothing, and
that is left to the other classes. Milletari et al. 2016, "V-Net", arXiv:1606.04797, section 3 (with squares in its
denominator); the form without squares, the modes and the names are those of segmentation_models_pytorch.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative
from gradwright.losses.common.module import Loss
from gradwright.losses.segmentation.overlap import Mode, Overlap, overlap_of
from gradwright.losses.segmentation.reduced import over_classes

_WHERE = "dice_loss(input, target)"


def dice_loss(
    input: Tensor,
    target: Tensor,
    mode: Mode = "binary",
    from_logits: bool = True,
    smooth: float = 0.0,
    ignore_index: int | None = None,
    *,
    log_loss: bool = False,
    eps: float = 1e-7,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """1 - Dice coefficient, over the whole batch, for each class; ``log_loss``: its negative logarithm instead.

    Shapes: mode "binary": ``input`` and ``target`` alike; "multilabel": [N, C, *] both; "multiclass": [N, C, *] and
    class numbers [N, *]. ``from_logits``: the input is logits, not probabilities. ``smooth`` is added to numerator and
    denominator, which is at least ``eps``. ``mask`` (bool) and ``ignore_index`` say which positions count.
    Result: the mean over classes, their sum, or [C] with ``reduction="none"``.
    Dtype: that of ``input``, float32 under autocast; the sums are float64. Coupling: statistics.
    Cost: two passes: 20 bytes an element of float32. Raises: UsageError.

    >>> import torch
    >>> dice_loss(torch.tensor([[[1e4, -1e4]]]), torch.tensor([[[1, 1]]])).item()
    0.3333333...
    """
    options_of(_WHERE, reduction, mask, None, empty)
    require_not_negative(_WHERE, smooth=smooth, eps=eps)
    sums = overlap_of(_WHERE, input, target, mode, from_logits, mask, ignore_index)
    return over_classes(of_sums(sums, smooth, eps, log_loss), sums, input, reduction, empty)


def of_sums(sums: Overlap, smooth: float, eps: float, log_loss: bool) -> Tensor:
    """The loss of every class, shape [C]."""
    dice = (2 * sums.intersection + smooth) / (sums.predicted + sums.true + smooth).clamp_min(eps)
    return -dice.clamp_min(eps).log() if log_loss else 1 - dice


class DiceLoss(Loss):
    """``dice_loss`` as a module.

    >>> import torch
    >>> DiceLoss("multiclass")(torch.zeros(1, 2, 4), torch.tensor([[0, 1, 0, 1]])).item()
    0.5
    """

    coupling = "statistics"

    def __init__(
        self,
        mode: Mode = "binary",
        from_logits: bool = True,
        smooth: float = 0.0,
        ignore_index: int | None = None,
        *,
        log_loss: bool = False,
        eps: float = 1e-7,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_not_negative(_WHERE, smooth=smooth, eps=eps)
        self.mode: Mode = mode
        self.from_logits = from_logits
        self.smooth = smooth
        self.ignore_index = ignore_index
        self.log_loss = log_loss
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return dice_loss(
            input,
            target,
            self.mode,
            self.from_logits,
            self.smooth,
            self.ignore_index,
            log_loss=self.log_loss,
            eps=self.eps,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
