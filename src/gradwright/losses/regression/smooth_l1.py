"""The smooth L1 loss: the absolute error, with its corner rounded.

With the error e = input - target,

    l(e) = e²/(2 beta)        for |e| < beta
           |e| - beta/2       beyond,              dl/de = clamp(e/beta, -1, 1)

which is Huber's with delta = beta, divided by beta; with beta = 0 it is |e|, whose slope at 0 is taken to be 0.
Girshick 2015, "Fast R-CNN", arXiv:1504.08083, equation 3 (beta = 1); torch.nn.SmoothL1Loss has the same scale.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    require_not_negative,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss

_WHERE = "smooth_l1_loss(input, target)"
_E = "(input - target)"
# e (e/beta) and not e²/beta: e² would underflow where a small beta is meant for small errors. That piece last: a NaN is
# on neither side of beta, and the absolute value would give it the slope 0.
_SMOOTH_L1 = Additive("smooth_l1_loss", f"where(abs{_E} >= beta, abs{_E} - 0.5*beta, 0.5*{_E}*({_E}/beta))")


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    beta: float = 1.0,
    weight: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """e²/(2 beta) for errors e = input - target below ``beta``, |e| - beta/2 beyond; |e| with ``beta=0``.

    Shapes: ``input`` and ``target`` alike; ``weight`` (0 or more, multiplies each element; a mean is divided by the
    count, not by the weights' sum) and ``mask`` (bool: which elements count) broadcast to them. Result: a scalar; of
    the shape of ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: of the loss, those of the input. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a negative weight, and options that can't be right.

    >>> import torch
    >>> smooth_l1_loss(torch.tensor([0.5, -3.0]), torch.zeros(2), reduction="none").tolist()
    [0.125, 2.5]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    require_not_negative(_WHERE, beta=beta)
    return _SMOOTH_L1(_WHERE, {"input": input, "target": target}, {"beta": float(beta)}, options, weight)


def reference(input: Tensor, target: Tensor, beta: float = 1.0) -> Tensor:
    """The unreduced loss, unfused."""
    return F.smooth_l1_loss(input, target, reduction="none", beta=beta)


class SmoothL1Loss(Loss):
    """``smooth_l1_loss`` as a module.

    >>> import torch
    >>> loss = SmoothL1Loss(beta=0.0)
    >>> loss(torch.tensor([-3.0]), torch.tensor([0.0])).item(), loss.coupling
    (3.0, 'additive')
    """

    coupling = "additive"

    def __init__(self, reduction: Reduction = "mean", beta: float = 1.0, *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_not_negative(_WHERE, beta=beta)
        self.reduction: Reduction = reduction
        self.beta = beta
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
        return smooth_l1_loss(
            input, target, self.reduction, self.beta, weight, mask=mask, num_items=num_items, empty=self.empty
        )
