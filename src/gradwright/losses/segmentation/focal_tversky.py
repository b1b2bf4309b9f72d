"""The focal Tversky loss: for each class a power of the Tversky loss.

With index = (TP + smooth) / max(TP + alpha FP + beta FN + smooth, eps) of the sums of ``confusion``,

    l = (1 - index)^(1/gamma),        dl = (1/gamma) (1 - index)^(1/gamma - 1) d(1 - index)

For gamma > 1 the slope has no bound where 1 - index goes to 0; at 0 itself, a perfect prediction, it is 0 here, as the
loss has its minimum there. 1 - index is no difference of numbers near 1 (see ``tversky_index``), so it and its power
are right to the last digits however small. Abraham & Khan 2018, "A Novel Focal Tversky loss function with improved
Attention U-Net for lesion segmentation", arXiv:1810.07842, section 2.1: gamma from 1 to 3, 4/3 the best, false
negatives at 0.7, false positives at 0.3. The names alpha and beta are here as in ``tversky``, the paper's the other way
round; what takes the power gamma itself (Kaggle's "Loss Function Library") has gamma = 1/gamma here.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative, require_positive
from gradwright.losses.common.module import Loss
from gradwright.losses.segmentation.confusion import arguments_of
from gradwright.losses.segmentation.modes import Mode
from gradwright.losses.segmentation.of_sums import OfSums, loss_of_sums, power_by_hand, power_by_torch
from gradwright.losses.segmentation.tversky import reference as tversky_reference
from gradwright.losses.segmentation.tversky_index import Tversky, by_hand, by_torch

_WHERE = "focal_tversky_loss(input, target)"


def focal_tversky_loss(
    input: Tensor,
    target: Tensor,
    mode: Mode = "binary",
    from_logits: bool = True,
    smooth: float = 0.0,
    ignore_index: int | None = None,
    alpha: float = 0.3,
    beta: float = 0.7,
    gamma: float = 4 / 3,
    *,
    eps: float = 1e-7,
    reduction: Reduction = "mean",
    mask: Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """(1 - Tversky index) ** (1 / gamma), over the whole batch, for each class.

    ``alpha`` weighs false positives, ``beta`` false negatives. ``gamma`` above 1 turns to what is nearly right, below 1
    to what is wrong; where a class's loss is 0, its gradient is 0.
    Shapes: mode "binary": ``input`` and ``target`` alike; "multilabel": [N, C, *] both; "multiclass": [N, C, *] and
    class numbers [N, *]. ``from_logits``: the input is logits, not probabilities. ``smooth`` is added to numerator and
    denominator, which is at least ``eps``. ``mask`` (bool) and ``ignore_index`` say which positions count.
    Result: the mean over classes, their sum (the paper's), or [C] with ``reduction="none"``.
    Dtype: that of ``input``, float32 under autocast; the sums are float64. Coupling: statistics.
    Cost: two passes: 20 bytes an element of float32. Raises: UsageError.

    >>> import torch
    >>> focal_tversky_loss(torch.zeros(1, 1, 8), torch.ones(1, 1, 8), alpha=1.0, beta=1.0, gamma=0.5).item()
    0.25
    """
    options_of(_WHERE, reduction, mask, None, empty)
    require_not_negative(_WHERE, smooth=smooth, alpha=alpha, beta=beta)
    require_positive(_WHERE, eps=eps, gamma=gamma)
    of, exponent = Tversky(alpha, beta, smooth, eps), 1 / gamma

    def powered(sums: Sequence[float]) -> tuple[float, list[float]]:
        loss, slopes = by_hand(of, *sums)
        value, slope = power_by_hand(loss, exponent)
        return value, [slope * each for each in slopes]

    arguments = arguments_of(_WHERE, input, target, mode, from_logits, mask, ignore_index)
    return loss_of_sums(
        arguments, OfSums(powered, lambda sums: power_by_torch(by_torch(of, sums), exponent), reduction, empty)
    )


def reference(
    probabilities: Tensor,
    target: Tensor,
    smooth: float = 0.0,
    alpha: float = 0.3,
    beta: float = 0.7,
    gamma: float = 4 / 3,
    eps: float = 1e-7,
) -> Tensor:
    """The loss of every class, unfused: of probabilities and labels, both [N, C, *]. No gradient where it is 0."""
    return tversky_reference(probabilities, target, smooth, alpha, beta, eps) ** (1 / gamma)


class FocalTverskyLoss(Loss):
    """``focal_tversky_loss`` as a module.

    >>> import torch
    >>> loss = FocalTverskyLoss("multiclass", alpha=1.0, beta=1.0, gamma=1.0)
    >>> loss(torch.zeros(1, 2, 4), torch.tensor([[0, 1, 0, 1]])).item()
    0.666666...
    """

    coupling = "statistics"

    def __init__(
        self,
        mode: Mode = "binary",
        from_logits: bool = True,
        smooth: float = 0.0,
        ignore_index: int | None = None,
        alpha: float = 0.3,
        beta: float = 0.7,
        gamma: float = 4 / 3,
        *,
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
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(self, input: Tensor, target: Tensor, *, mask: Tensor | None = None) -> Tensor:
        return focal_tversky_loss(
            input,
            target,
            self.mode,
            self.from_logits,
            self.smooth,
            self.ignore_index,
            self.alpha,
            self.beta,
            self.gamma,
            eps=self.eps,
            reduction=self.reduction,
            mask=mask,
            empty=self.empty,
        )
