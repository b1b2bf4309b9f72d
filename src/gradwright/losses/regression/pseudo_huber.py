"""The pseudo-Huber loss: Huber's, smooth everywhere.

With the error e = input - target and s = sqrt(1 + (e/delta)²),

    l(e) = delta² (s - 1),          dl/de = e / s

near e²/2 within delta, near delta |e| - delta² far out. Hartley & Zisserman, "Multiple View Geometry in Computer
Vision", 2nd ed., A6.8 (Charbonnier et al. 1994, "Two deterministic half-quadratic regularization algorithms for
computed imaging", has it with delta = 1).

Near 0, s - 1 cancels, and far out (e/delta)² overflows, so there are three pieces:

    l(e) = e²/(1 + s)             for |e| <= delta     (s² - 1 = (e/delta)²)
           delta² (s - 1)         beyond
           delta (|e| - delta)    for |e| > 1e15 delta, where s is |e|/delta to more digits than there are

Each keeps its relative accuracy, and so do the derivatives that the rules make of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

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

_WHERE = "pseudo_huber_loss(input, target)"


def formula_of(error: str, delta: str) -> str:
    """The formula for an error and a delta; its numbers: ``inverse`` is 1/delta; beyond ``far`` s is straight."""
    s = f"sqrt(1 + ({error}*inverse)**2)"
    near, beyond = f"{error}**2*(1 + {s})**(-1)", f"{delta}*({delta}*({s} - 1))"
    return (
        f"where(abs({error}) > far, {delta}*(abs({error}) - {delta}), where(abs({error}) <= {delta}, {near}, {beyond}))"
    )


def numbers_of(delta: float) -> dict[str, float]:
    return {"inverse": 1 / delta, "far": 1e15 * delta}


_PSEUDO_HUBER = Additive("pseudo_huber_loss", formula_of("(input - target)", "delta"))


def pseudo_huber_loss(
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
    """delta² (sqrt(1 + (e/delta)²) - 1) for errors e = input - target.

    Shapes: ``input`` and ``target`` alike; ``weight`` (0 or more, multiplies each element; a mean is divided by the
    count, not by the weights' sum) and ``mask`` (bool: which elements count) broadcast to them. Result: a scalar; of
    the shape of ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: of the loss, those of the input squared. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a negative weight, and options that can't be right.

    >>> import torch
    >>> near, far = pseudo_huber_loss(torch.tensor([1e-10, 1e10]), torch.zeros(2), reduction="none").tolist()
    >>> f"{near:.3g} {far:.3g}"
    '5e-21 1e+10'
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    require_positive(_WHERE, delta=delta)
    delta = float(delta)
    numbers = {"delta": delta, **numbers_of(delta)}
    return _PSEUDO_HUBER(_WHERE, {"input": input, "target": target}, numbers, options, weight)


def reference(input: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """The unreduced loss, unfused."""
    square = ((input - target) / delta).square()
    return delta**2 * square / (1 + torch.sqrt(1 + square))


class PseudoHuberLoss(Loss):
    """``pseudo_huber_loss`` as a module.

    >>> import torch
    >>> loss = PseudoHuberLoss(delta=2.0)
    >>> loss(torch.tensor([1.5]), torch.tensor([0.0])).item(), loss.coupling
    (1.0, 'additive')
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
        return pseudo_huber_loss(
            input, target, self.reduction, self.delta, weight, mask=mask, num_items=num_items, empty=self.empty
        )
