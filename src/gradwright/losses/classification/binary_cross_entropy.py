"""Binary cross entropy of a logit x against a label t from 0 to 1.

With the probability p = sigmoid(x), the label smoothing eps, t' = (1 - eps) t + eps/2 and the weight w+ of positives,

    l     = -w+ t' log p - (1 - t') log(1 - p) = w+ t' softplus(-x) + (1 - t') softplus(x)
    dl/dx = -w+ t' sigmoid(-x) + (1 - t') sigmoid(x)

With softplus(x) = max(x, 0) + s, softplus(-x) = max(-x, 0) + s and s = softplus(-|x|) that is

    l = (w+ t' |x| for x < 0, (1 - t') x otherwise) + (w+ t' + 1 - t') s

Every term is 0 or above, so nothing cancels: for x = 20, t = 1 the loss is 2.06e-9, where softplus(x) - t x would be 0
in float32. Of |x|, written with ``where(x < 0, ...)``, both derivatives are right at x = 0, too. torch.nn
.BCEWithLogitsLoss has the same value; label smoothing, here of two classes: Szegedy et al. 2016, arXiv:1512.00567,
section 7.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.additive import Additive, Fault, require_broadcast
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real, require_same_shape
from gradwright.losses.common.module import Loss

_WHERE = "binary_cross_entropy_with_logits(input, target)"
IS_LABEL: Final = Fault(
    "target",
    "not (target >= 0 and target <= 1)",
    lambda target: ~((target >= 0) & (target <= 1)),
    "is not from 0 to 1",
    "hand over labels from 0 to 1; those to leave out: mask=..., or ignore_index=...",
)
_IS_POSITIVE_WEIGHT = Fault(
    "pos_weight",
    "not (pos_weight >= 0)",
    lambda weight: ~(weight >= 0),
    "is negative or NaN",
    "a weight is 0 or more; to leave the positives out, 0",
)


def _of(is_weighted: bool) -> Additive:
    positive, negative = "((1 - eps) * target + 0.5 * eps)", "(1 - ((1 - eps) * target + 0.5 * eps))"
    if is_weighted:
        positive = f"(pos_weight * {positive})"
    beside = f"{f'({positive} + {negative}) * ' if is_weighted else ''}softplus(where(input < 0, input, -input))"
    return Additive(
        "binary_cross_entropy_with_logits",
        f"where(input < 0, -input * {positive}, input * {negative}) + {beside}",
        (IS_LABEL, _IS_POSITIVE_WEIGHT) if is_weighted else (IS_LABEL,),
    )


_BCE = {is_weighted: _of(is_weighted) for is_weighted in (False, True)}


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: Reduction = "mean",
    pos_weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """-log of the probability sigmoid(input) of the label, or its mean under a label between 0 and 1.

    Shapes: ``input`` logits of any shape, ``target`` alike: labels from 0 to 1, of any real dtype or bool. ``weight``
    (0 or more, multiplies each element; a mean is divided by the count, as torch's is), ``pos_weight`` (0 or more,
    multiplies the positives' part) and ``mask`` (bool: which elements count) broadcast to them. ``label_smoothing``:
    how far labels are drawn to 1/2. Elements of the label ``ignore_index`` do not count. Result: a scalar; of the shape
    of ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count. ``empty``: a
    mean of nothing is 0 ("zero") or NaN ("nan").
    Units: nats. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32; with
    ``ignore_index`` one more over the target.
    Raises: UsageError for shapes that differ, a label that is not from 0 to 1, a negative weight, and options that
    can't be right.

    >>> import torch
    >>> logits, labels = torch.tensor([0.0, 20.0, -1e4]), torch.tensor([1, 1, 0])
    >>> binary_cross_entropy_with_logits(logits, labels, reduction="none").tolist()
    [0.693147..., 2.0611...e-09, 0.0]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input)
    require_labels(_WHERE, input, target)
    _require_smoothing(label_smoothing)
    if ignore_index is not None:
        options = options._replace(mask=counting(_WHERE, target, ignore_index, mask))
    tensors = {"input": input, "target": target}
    if pos_weight is not None:
        _require_positive_weight(pos_weight, input)
        tensors["pos_weight"] = pos_weight
    return _BCE[pos_weight is not None](_WHERE, tensors, {"eps": float(label_smoothing)}, options, weight)


def require_labels(where: str, input: Tensor, target: object) -> None:
    """UsageError for what is not one label for each logit."""
    if not isinstance(target, Tensor) or target.is_complex():
        raise refusal(f"target is {told(target)}", where=where, do="hand over a tensor of labels from 0 to 1")
    require_same_shape(where, input=input, target=target)


def counting(where: str, target: Tensor, ignored: int, mask: Tensor | None) -> Tensor:
    """Which labels count: those of the mask that are not ``ignored``."""
    counts = target.detach() != ignored
    if mask is None:
        return counts
    require_broadcast(where, "mask", mask, target)
    return counts & mask


def _require_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise refusal(f"label_smoothing is {label_smoothing}", where=_WHERE, do="hand over a number from 0 to 1")


def _require_positive_weight(weight: object, input: Tensor) -> None:
    if not isinstance(weight, Tensor) or weight.is_complex() or weight.dtype is torch.bool:
        raise refusal(f"pos_weight is {told(weight)}", where=_WHERE, do="hand over a tensor of numbers, 0 or more")
    require_broadcast(_WHERE, "pos_weight", weight, input)


def reference(input: Tensor, target: Tensor, pos_weight: Tensor | None = None, label_smoothing: float = 0.0) -> Tensor:
    """The unreduced loss, unfused."""
    smoothed = (1 - label_smoothing) * target.to(input.dtype) + label_smoothing / 2
    positive = -smoothed * F.logsigmoid(input)
    return (positive if pos_weight is None else pos_weight * positive) - (1 - smoothed) * F.logsigmoid(-input)


class BCEWithLogitsLoss(Loss):
    """``binary_cross_entropy_with_logits`` as a module.

    >>> import torch
    >>> BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))(torch.zeros(3), torch.ones(3)).item()
    1.386294...
    """

    coupling = "additive"
    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        pos_weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
        *,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_smoothing(label_smoothing)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.reduction: Reduction = reduction
        self.label_smoothing = label_smoothing
        self.ignore_index = ignore_index
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            self.reduction,
            self.pos_weight,
            self.label_smoothing,
            self.ignore_index,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
