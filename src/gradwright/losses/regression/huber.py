"""The Huber loss: a square near the target, a line away from it.

With the error e = input - target,

    l(e) = e²/2               for |e| <= delta
           delta (|e| - delta/2)   beyond,          dl/de = clamp(e, -delta, delta)

The pieces meet in value and slope at |e| = delta. Huber 1964, "Robust Estimation of a Location Parameter", Annals of
Mathematical Statistics 35(1), equation for rho, section 2; torch.nn.HuberLoss has the same scale.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    require_positive,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss

_WHERE = "huber_loss(input, target)"
_HUBER = Additive(
    "huber_loss",
    # The square last: a NaN is in no branch by a comparison, and through the absolute value its gradient would be 0.
    "where(abs(input - target) > delta, delta * (abs(input - target) - 0.5 * delta), 0.5 * (input - target)**2)",
)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """e²/2 for errors e = input - target up to ``delta``, delta (|e| - delta/2) beyond.

    Shapes: ``input`` and ``target`` alike; ``weight`` (0 or more, multiplies each element; a mean is divided by the
    count, as torch's is) and ``mask`` (bool: which elements count) broadcast to them. Result: a scalar; of the shape of
    ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: of the loss, those of the input squared. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a negative weight, and options that can't be right.

    >>> import torch
    >>> huber_loss(torch.tensor([0.5, 3.0]), torch.zeros(2), reduction="none").tolist()
    [0.125, 2.5]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    require_positive(_WHERE, delta=delta)
    return _HUBER(_WHERE, {"input": input, "target": target}, {"delta": float(delta)}, options, weight)


def reference(input: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """The unreduced loss, unfused."""
    return F.huber_loss(input, target, reduction="none", delta=delta)


class HuberLoss(Loss):
    """``huber_loss`` as a module.

    >>> import torch
    >>> loss = HuberLoss(delta=2.0)
    >>> loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), loss.coupling
    (0.5, 'additive')
    """

    coupling = "additive"

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0, *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_positive(_WHERE, delta=delta)
        self.reduction: Reduction = reduction
        self.delta = delta
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
        return huber_loss(
            input, target, self.reduction, self.delta, weight, mask=mask, num_items=num_items, empty=self.empty
        )
