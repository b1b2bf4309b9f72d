"""Cross entropy and Dice loss together: the one looks at every position, the other at the region as a whole.

With the sums of ``confusion`` over a whole batch, for each class

    l = bce_weight CE / N + dice_weight (1 - (2 TP + smooth) / max(2 TP + FP + FN + smooth, eps))

``cross_overlap`` has value and slopes. The four sums are of one pass, the gradient of both terms is of another. The
form of Kaggle's "Loss Function Library" (BCE-Dice: both weights 1, smooth 1), with MONAI's DiceCE for class numbers:
there CE is -log p of the true class. As in ``dice``, a class that no target belongs to has no Dice term.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative, require_positive
from gradwright.losses.common.module import Loss
from gradwright.losses.segmentation.confusion import arguments_of
from gradwright.losses.segmentation.cross_overlap import cross_overlap
from gradwright.losses.segmentation.modes import Mode
from gradwright.losses.segmentation.of_sums import OfSums, loss_of_sums

_WHERE = "bce_dice_loss(input, target)"


def bce_dice_loss(
    input: Tensor,
    target: Tensor,
    mode: Mode = "binary",
    from_logits: bool = True,
    smooth: float = 1.0,
    ignore_index: int | None = None,
    *,
    bce_weight: float = 1.0,
    dice_weight: float = 1.0,
    eps: float = 1e-7,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """The mean cross entropy of the positions that count, and the Dice loss over the whole batch, for each class.

    Shapes: mode "binary": ``input`` and ``target`` alike; "multilabel": [N, C, *] both; "multiclass": [N, C, *] and
    class numbers [N, *] (then the cross entropy is that of the classes). ``from_logits``: the input is logits, not
    probabilities. ``smooth`` is added to numerator and denominator of the Dice coefficient, whose denominator is at
    least ``eps``. ``mask`` (bool) and ``ignore_index`` say which positions count.
    Result: the mean over classes, their sum, or [C] with ``reduction="none"``.
    Dtype: that of ``input``, float32 under autocast; the sums are float64. Coupling: statistics.
    Cost: two passes: 20 bytes an element of float32. Raises: UsageError.

    >>> import torch
    >>> bce_dice_loss(torch.tensor([[[1e4, -3.0]]]), torch.tensor([[[1, 1]]]), smooth=0.0).item()
    1.836876...
    """
    options_of(_WHERE, reduction, mask, None, empty)
    require_not_negative(_WHERE, smooth=smooth, bce_weight=bce_weight, dice_weight=dice_weight)
    require_positive(_WHERE, eps=eps)
    arguments = arguments_of(_WHERE, input, target, mode, from_logits, mask, ignore_index, (1.0, 1.0))
    of_each = bce_weight * input.shape[1] if mode == "multiclass" else bce_weight
    both = cross_overlap(of_each, dice_weight, smooth, eps)
    return loss_of_sums(arguments, OfSums(both.by_hand, both.by_torch, reduction, empty))


def reference(
    logits: Tensor, target: Tensor, smooth: float = 1.0, bce_weight: float = 1.0, dice_weight: float = 1.0
) -> Tensor:
    """The loss of every class, unfused: of logits and labels, both [N, C, *], where each class has some."""
    axes = [axis for axis in range(logits.ndim) if axis != 1]
    p = logits.sigmoid()
    dice = (2 * (p * target).sum(axes) + smooth) / (p.sum(axes) + target.sum(axes) + smooth)
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(axes)
    return bce_weight * entropy + dice_weight * (1 - dice)


class BCEDiceLoss(Loss):
    """``bce_dice_loss`` as a module.

    >>> import torch
    >>> BCEDiceLoss("multiclass", dice_weight=0.0)(torch.zeros(1, 2, 4), torch.tensor([[0, 1, 0, 1]])).item()
    0.693147...
    """

    coupling = "statistics"

    def __init__(
        self,
        mode: Mode = "binary",
        from_logits: bool = True,
        smooth: float = 1.0,
        ignore_index: int | None = None,
        *,
        bce_weight: float = 1.0,
        dice_weight: float = 1.0,
        eps: float = 1e-7,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_not_negative(_WHERE, smooth=smooth, bce_weight=bce_weight, dice_weight=dice_weight)
        require_positive(_WHERE, eps=eps)
        self.mode: Mode = mode
        self.from_logits = from_logits
        self.smooth = smooth
        self.ignore_index = ignore_index
        self.bce_weight = bce_weight
        self.dice_weight = dice_weight
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return bce_dice_loss(
            input,
            target,
            self.mode,
            self.from_logits,
            self.smooth,
            self.ignore_index,
            bce_weight=self.bce_weight,
            dice_weight=self.dice_weight,
            eps=self.eps,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
