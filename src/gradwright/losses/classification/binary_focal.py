"""The focal loss of a logit x against a label t from 0 to 1: what is predicted well counts for less.

With p = sigmoid(x), the cross entropy c of the label, the probability p_t = p t + (1 - p) (1 - t) of being right and
alpha_t = alpha t + (1 - alpha) (1 - t),

    l = alpha_t (1 - p_t)^gamma c,        c = t softplus(-x) + (1 - t) softplus(x)

1 - p_t = t sigmoid(-x) + (1 - t) sigmoid(x), a sum of terms of one sign; its square, of the usual gamma = 2, is a
product. Any other power is exp(gamma log(1 - p_t)), never that of a rounded 1 - p_t: the slope of a power below 1 is
infinite at 0, and 0 * inf made gradients NaN for confident predictions (kornia issue 918). At t = r, r = 0 or 1, that
number may be 0 in float32, its logarithm may not: with y = x for r = 1, -x for r = 0, and d = t - 1 for r = 1, -t for
r = 0 (d is 0, and there for the slope by t),

    log(1 - p_t) = -softplus(y) + log(1 - d tanh(y/2) / sigmoid(-y))

There value and slope are finite everywhere, and for t = 1 (t = 0 with -x for x) sums of terms of one sign:

    l = sigmoid(-x)^gamma softplus(-x),     dl/dx = -sigmoid(-x)^gamma (sigmoid(-x) + gamma sigmoid(x) softplus(-x))

Lin et al. 2017, "Focal Loss for Dense Object Detection", arXiv:1708.02002, equations 4 and 5; torchvision's
``sigmoid_focal_loss`` has the same value, between 0 and 1, too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal
from gradwright.losses.classification.binary_cross_entropy import IS_LABEL, counting, require_labels
from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_not_negative, require_real
from gradwright.losses.common.module import Loss

_WHERE = "binary_focal_loss(input, target)"
_TINY = 1e-30  # a label below, by which no probability is told from 0
USUAL_GAMMA = 2.0  # a square is a product, and six times as fast as a power
NO_ALPHA = -1.0  # torchvision's: no label weighs more than the other


_WRONG = "(target * sigmoid(-input) + (1 - target) * sigmoid(input))"  # 1 - p; no term of it is negative


def _of(is_weighted: bool, is_squared: bool) -> Additive:
    alpha = "(alpha * target + (1 - alpha) * (1 - target)) * " if is_weighted else ""
    power = f"{_WRONG} * {_WRONG}" if is_squared else _power()
    beside = "softplus(where(input < 0, input, -input))"  # as in ``binary_cross_entropy``
    entropy = f"(where(input < 0, -input * target, input * (1 - target)) + {beside})"
    return Additive("binary_focal_loss", f"{alpha}{power} * {entropy}", (IS_LABEL,))


def _power() -> str:
    """(1 - p)^gamma by its logarithm, which has a slope where 1 - p is too small for a number."""
    certain = f"(target == 1 or target < {_TINY})"
    y, d = "where(target == 1, input, -input)", "where(target == 1, target - 1, -target)"
    near = f"1 - {d} * tanh({y} / 2) / max(sigmoid(-{y}), {_TINY})"
    log = f"where({certain}, -softplus({y}), 0) + log(where({certain}, {near}, {_WRONG}))"
    return f"exp(gamma * ({log}))"


_FOCAL = {(weighs, squares): _of(weighs, squares) for weighs in (False, True) for squares in (False, True)}


def binary_focal_loss(
    input: Tensor,
    target: Tensor,
    alpha: float | None = 0.25,
    gamma: float = USUAL_GAMMA,
    reduction: Reduction = "mean",
    weight: Tensor | None = None,
    ignore_index: int | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """(1 - p)^gamma times the cross entropy -log p, p being the probability of the label.

    Shapes: ``input`` logits of any shape, ``target`` alike: labels from 0 to 1, of any real dtype or bool. ``alpha``:
    the weight of label 1, that of label 0 being 1 - alpha; None or -1: no weights. ``gamma``: any number from 0 on; 0
    is cross entropy. ``weight`` (0 or more) and ``mask`` (bool) broadcast to the input; elements of the label
    ``ignore_index`` do not count. Result: a scalar; of the shape of ``input`` with ``reduction="none"``. A mean is
    divided by the count, or by ``num_items``: for a detector, how many anchors are positive.
    Units: nats. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32; with
    ``ignore_index`` one more over the target.
    Raises: UsageError for shapes that differ, a label that is not from 0 to 1, a negative weight, and options that
    can't be right.

    >>> import torch
    >>> logits = torch.tensor([1e4, 0.0, -1e4], requires_grad=True)
    >>> binary_focal_loss(logits, torch.ones(3), alpha=None, gamma=0.5, reduction="sum").backward()
    >>> logits.grad.tolist()
    [0.0, -0.476085..., -1.0]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input)
    require_labels(_WHERE, input, target)
    weighs = _require_numbers(alpha, gamma)
    if ignore_index is not None:
        options = options._replace(mask=counting(_WHERE, target, ignore_index, mask))
    is_squared = gamma == USUAL_GAMMA
    numbers = {} if is_squared else {"gamma": float(gamma)}
    if weighs is not None:
        numbers["alpha"] = weighs
    return _FOCAL[weighs is not None, is_squared](_WHERE, {"input": input, "target": target}, numbers, options, weight)


def _require_numbers(alpha: float | None, gamma: float) -> float | None:
    require_not_negative(_WHERE, gamma=gamma)
    if gamma == float("inf"):
        raise refusal("gamma is inf", where=_WHERE, do="hand over a number from 0 on; 2 is usual")
    if alpha is None or alpha == NO_ALPHA:
        return None
    if not 0.0 <= alpha <= 1.0:
        raise refusal(f"alpha is {alpha}", where=_WHERE, do="hand over a number from 0 to 1, or None for no weights")
    return float(alpha)


def reference(input: Tensor, target: Tensor, alpha: float | None = 0.25, gamma: float = 2.0) -> Tensor:
    """The unreduced loss, unfused."""
    t = target.to(input.dtype)
    is_one, is_certain = t == 1, (t == 1) | (t < _TINY)
    y, d = torch.where(is_one, input, -input), torch.where(is_one, t - 1, -t)
    near = 1 - d * torch.tanh(y / 2) / torch.sigmoid(-y).clamp_min(_TINY)
    between = t * torch.sigmoid(-input) + (1 - t) * torch.sigmoid(input)
    log_wrong = torch.where(is_certain, F.logsigmoid(-y), 0.0) + torch.where(is_certain, near, between).log()
    loss = (gamma * log_wrong).exp() * -(t * F.logsigmoid(input) + (1 - t) * F.logsigmoid(-input))
    return loss if alpha is None else (alpha * t + (1 - alpha) * (1 - t)) * loss


class BinaryFocalLoss(Loss):
    """``binary_focal_loss`` as a module.

    >>> import torch
    >>> BinaryFocalLoss(alpha=None, gamma=0.0)(torch.zeros(3), torch.ones(3)).item()
    0.693147...
    """

    coupling = "additive"

    def __init__(
        self,
        alpha: float | None = 0.25,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_numbers(alpha, gamma)
        self.alpha = alpha
        self.gamma = gamma
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        weight: Tensor | None = None,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return binary_focal_loss(
            input,
            target,
            self.alpha,
            self.gamma,
            self.reduction,
            weight,
            self.ignore_index,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
