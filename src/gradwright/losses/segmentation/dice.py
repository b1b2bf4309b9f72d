"""The Dice loss: one minus the Dice coefficient of prediction and target.

With the sums of ``confusion`` over a whole batch, for each class

    dice = (2 TP + smooth) / max(2 TP + FP + FN + smooth, eps),        l = 1 - dice   (or -log dice)

which is the Tversky index of alpha = beta = 1/2, with half its smooth and eps; ``tversky_index`` has value and slopes.

A class that no target belongs to has loss 0, whatever is predicted: what it would reward is predicting nothing, and
that is left to the other classes. Milletari et al. 2016, "V-Net", arXiv:1606.04797, section 3 (with squares in its
denominator); the form without squares, the modes and the names are those of segmentation_models_pytorch, whose 0.6
adds twice the smooth that is asked for; here it is added as it is, as MONAI has it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative, require_positive
from gradwright.losses.common.module import Loss
from gradwright.losses.segmentation.confusion import arguments_of
from gradwright.losses.segmentation.modes import Mode
from gradwright.losses.segmentation.of_sums import OfSums, loss_of_sums
from gradwright.losses.segmentation.tversky_index import Tversky, by_hand, by_torch

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
    require_not_negative(_WHERE, smooth=smooth)
    require_positive(_WHERE, eps=eps)
    of = Tversky(0.5, 0.5, smooth / 2, eps / 2, log_loss)
    arguments = arguments_of(_WHERE, input, target, mode, from_logits, mask, ignore_index)
    return loss_of_sums(
        arguments, OfSums(lambda sums: by_hand(of, *sums), lambda sums: by_torch(of, sums), reduction, empty)
    )


def reference(
    probabilities: Tensor, target: Tensor, smooth: float = 0.0, eps: float = 1e-7, log_loss: bool = False
) -> Tensor:
    """The loss of every class, unfused: of probabilities and labels, both [N, C, *]."""
    axes = [axis for axis in range(probabilities.ndim) if axis != 1]
    intersection = (probabilities * target).sum(axes)
    dice = (2 * intersection + smooth) / ((probabilities + target).sum(axes) + smooth).clamp_min(eps)
    losses = -dice.clamp_min(eps).log() if log_loss else 1 - dice
    return torch.where(target.sum(axes) > 0, losses, 0.0)


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
        require_not_negative(_WHERE, smooth=smooth)
        require_positive(_WHERE, eps=eps)
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
