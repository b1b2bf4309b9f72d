"""The Tversky loss: one minus the Tversky index, which weighs false positives and false negatives apart.

With the sums of ``confusion`` over a whole batch, for each class

    index = (TP + smooth) / max(TP + alpha FP + beta FN + smooth, eps),        l = 1 - index   (or -log index)

and, of the classes' mean, the power gamma; ``tversky_index`` has value and slopes. A class that no target belongs to
has loss 0. Salehi et al. 2017, "Tversky loss function for image segmentation using 3D fully convolutional deep
networks", arXiv:1706.05721, equation 4; modes, names and gamma are those of segmentation_models_pytorch.
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

_WHERE = "tversky_loss(input, target)"


def tversky_loss(
    input: Tensor,
    target: Tensor,
    mode: Mode = "binary",
    from_logits: bool = True,
    smooth: float = 0.0,
    ignore_index: int | None = None,
    alpha: float = 0.5,
    beta: float = 0.5,
    gamma: float = 1.0,
    *,
    log_loss: bool = False,
    eps: float = 1e-7,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """1 - Tversky index, over the whole batch, for each class; ``log_loss``: its negative logarithm instead.

    ``alpha`` weighs false positives, ``beta`` false negatives; 1/2 both is the Dice loss, 1 both the Jaccard loss.
    ``gamma``: the power of what is returned; where the loss is 0, its gradient is 0.
    Shapes: mode "binary": ``input`` and ``target`` alike; "multilabel": [N, C, *] both; "multiclass": [N, C, *] and
    class numbers [N, *]. ``from_logits``: the input is logits, not probabilities. ``smooth`` is added to numerator and
    denominator, which is at least ``eps``. ``mask`` (bool) and ``ignore_index`` say which positions count.
    Result: the mean over classes, their sum, or [C] with ``reduction="none"``.
    Dtype: that of ``input``, float32 under autocast; the sums are float64. Coupling: statistics.
    Cost: two passes: 20 bytes an element of float32. Raises: UsageError.

    >>> import torch
    >>> tversky_loss(torch.tensor([[[1e4, -1e4]]]), torch.tensor([[[1, 1]]]), alpha=0.3, beta=3.0).item()
    0.75
    """
    options_of(_WHERE, reduction, mask, None, empty)
    require_not_negative(_WHERE, smooth=smooth, alpha=alpha, beta=beta)
    require_positive(_WHERE, eps=eps, gamma=gamma)
    of = Tversky(alpha, beta, smooth, eps, log_loss)
    arguments = arguments_of(_WHERE, input, target, mode, from_logits, mask, ignore_index)
    return loss_of_sums(
        arguments, OfSums(lambda sums: by_hand(of, *sums), lambda sums: by_torch(of, sums), reduction, empty, gamma)
    )


def reference(
    probabilities: Tensor, target: Tensor, smooth: float = 0.0, alpha: float = 0.5, beta: float = 0.5, eps: float = 1e-7
) -> Tensor:
    """1 - index of every class, unfused: of probabilities and labels, both [N, C, *]."""
    axes = [axis for axis in range(probabilities.ndim) if axis != 1]
    hit = (probabilities * target).sum(axes)
    false_positive = (probabilities * (1 - target)).sum(axes)
    false_negative = ((1 - probabilities) * target).sum(axes)
    index = (hit + smooth) / (hit + alpha * false_positive + beta * false_negative + smooth).clamp_min(eps)
    return torch.where(target.sum(axes) > 0, 1 - index, 0.0)


class TverskyLoss(Loss):
    """``tversky_loss`` as a module.

    >>> import torch
    >>> TverskyLoss("multiclass", alpha=1.0, beta=1.0)(torch.zeros(1, 2, 4), torch.tensor([[0, 1, 0, 1]])).item()
    0.666666...
    """

    coupling = "statistics"

    def __init__(
        self,
        mode: Mode = "binary",
        from_logits: bool = True,
        smooth: float = 0.0,
        ignore_index: int | None = None,
        alpha: float = 0.5,
        beta: float = 0.5,
        gamma: float = 1.0,
        *,
        log_loss: bool = False,
        eps: float = 1e-7,
        reduction: Reduction = "mean",
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_not_negative(_WHERE, smooth=smooth, alpha=alpha, beta=beta)
        require_positive(_WHERE, eps=eps, gamma=gamma)
        self.mode: Mode = mode
        self.from_logits = from_logits
        self.smooth = smooth
        self.ignore_index = ignore_index
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.log_loss = log_loss
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return tversky_loss(
            input,
            target,
            self.mode,
            self.from_logits,
            self.smooth,
            self.ignore_index,
            self.alpha,
            self.beta,
            self.gamma,
            log_loss=self.log_loss,
            eps=self.eps,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
