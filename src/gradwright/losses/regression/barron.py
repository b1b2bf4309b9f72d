"""The general robust loss: one family, from the square over Charbonnier's and Cauchy's to Welsch's.

With the error e = input - target, z = e/c (c the scale), u = z², the shape a (``alpha``), b = |a - 2| and p = a/2,

    l(e) = (b/a) ((u/b + 1)^p - 1),        dl/de = (z/c) (u/b + 1)^(p - 1)

    a = 2: u/2 (a square)    a = 1: sqrt(u + 1) - 1 (Charbonnier)    a = 0: log(u/2 + 1) (Cauchy)
    a = -2: 2u/(u + 4) (Geman & McClure)    a -> -inf: 1 - exp(-u/2) (Welsch)    a -> inf: exp(u/2) - 1

Barron 2019, "A General and Adaptive Robust Loss Function", arXiv:1701.03077, equations 8 and 9; the last limit is that
of its code.

At a = 2, 0 and ±inf the formula is 0/0, 0 inf or 1^inf, and close to them it cancels. The author's code adds an epsilon
to b and a; here each range of a has a form in which nothing cancels, in terms of L = log(u/b + 1):

    |a| < 1e-8             (b/2) L (1 + x/2 + x²/6), x = p L: the first terms of (b/a) (exp(x) - 1), the rest being
                           below x³/24 < 1e-19
    a = 1                  the pseudo-Huber loss of z
    1 < a <= 3, a != 2     (u exp(w) + b (exp(w) - 1))/a,  w = (p - 1) L, as (u/b + 1)^p = (u/b + 1) exp(w). For
                           a -> 2 w goes to 0 like b, where p L goes to infinity
    |a| > 1e17             ±(exp(±u/2) - 1), from which the loss differs by about 2/b
    other a                (b/a) (exp(p L) - 1)

u overflows long before the loss does. Not so L = 2 log(|z|/sqrt(b)) + log(1 + b/u): beyond |z| = ``far``, where b/u is
below 1e-18, L is the first of the two terms; and for 1 < a <= 3 the loss is b^(1-p)/a exp(a log|z|) - b/a there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
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
from gradwright.losses.regression import pseudo_huber

_WHERE = "general_robust_loss(input, target)"
_NEAR_ZERO = 1e-8
_ENDLESS = 1e17

_Z = "((input - target)/scale)"
_FAR = f"abs{_Z} > far"
# L, by one logarithm, of 1 + u/b or of |z|/unit.
_L = f"(where({_FAR}, 2, 1)*log1p(where({_FAR}, abs{_Z}/unit - 1, {_Z}**2/b)))"
_X = f"(where({_FAR}, p, p - 1)*{_L})"

_SQUARE = Additive("general_robust_loss", f"0.5*{_Z}**2")
_CHARBONNIER = Additive("general_robust_loss", pseudo_huber.formula_of(_Z, "1"))
_CAUCHY = Additive("general_robust_loss", f"0.5*b*{_L}*(1 + p*{_L}*(0.5 + p*{_L}/6))")
_AROUND_SQUARE = Additive(
    "general_robust_loss",
    f"where({_FAR}, slope*exp{_X} - b/alpha, ({_Z}**2*exp{_X} + b*expm1{_X})/alpha)",
)
_OTHER = Additive("general_robust_loss", f"b/alpha*expm1(p*{_L})")
_ENDS = Additive("general_robust_loss", f"turn*expm1(0.5*turn*{_Z}**2)")


def general_robust_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    alpha: float = 1.0,
    scale: float = 1.0,
    weight: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """Barron's loss of errors input - target, of the shape ``alpha``, which is any number, ±inf included.

    ``alpha``: 2 is a square; the smaller, the less an outlier counts: 1 Charbonnier's (pseudo-Huber), 0 Cauchy's, -2
    Geman and McClure's, -inf Welsch's. ``scale``: the error at which the square ends, about.

    Shapes: ``input`` and ``target`` alike; ``weight`` (0 or more, multiplies each element; a mean is divided by the
    count, not by the weights' sum) and ``mask`` (bool: which elements count) broadcast to them. Result: a scalar; of
    the shape of ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: of the loss, none; of ``scale``, those of the input. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32; where
    alpha is not 2, 1, 0 or infinite, a logarithm and two exponentials for each.
    Raises: UsageError for shapes that differ, a NaN target, a negative weight, and options that can't be right.

    >>> import torch
    >>> outlier = torch.tensor([100.0])
    >>> for alpha in (2.0, 1.0, 0.0, -2.0, -float("inf")):
    ...     print(round(general_robust_loss(outlier, torch.zeros(1), alpha=alpha).item(), 3))
    5000.0
    99.005
    8.517
    1.999
    1.0
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    _require_shape(alpha)
    require_positive(_WHERE, scale=scale)
    form, numbers = _form_of(float(alpha))
    return form(_WHERE, {"input": input, "target": target}, {**numbers, "scale": float(scale)}, options, weight)


def _require_shape(alpha: float | Tensor) -> None:
    if isinstance(alpha, Tensor):
        raise refusal(
            f"alpha is {told(alpha)}",
            where=_WHERE,
            why="it chooses the formula, and no gradient goes to it",
            do="hand over a number: float(alpha)",
        )
    if math.isnan(alpha):
        raise refusal("alpha is nan", where=_WHERE, do="hand over a number, or an infinity")


def _form_of(alpha: float) -> tuple[Additive, dict[str, float]]:
    """The form for this shape, and the numbers that it is made of."""
    if alpha == 2:
        return _SQUARE, {}
    if alpha == 1:
        return _CHARBONNIER, pseudo_huber.numbers_of(1.0)
    if abs(alpha) > _ENDLESS:
        return _ENDS, {"turn": math.copysign(1.0, alpha)}
    b, p = abs(alpha - 2), alpha / 2
    numbers = {"b": b, "p": p, "unit": math.sqrt(b), "far": 1e9 * math.sqrt(max(b, 1.0))}
    if abs(alpha) < _NEAR_ZERO:
        return _CAUCHY, numbers
    numbers["alpha"] = alpha
    if 1 < alpha <= 3:
        return _AROUND_SQUARE, {**numbers, "unit": 1.0, "slope": b ** (1 - p) / alpha}
    return _OTHER, numbers


def reference(input: Tensor, target: Tensor, alpha: float = 1.0, scale: float = 1.0) -> Tensor:
    """The unreduced loss, unfused, as equation 8 has it."""
    square = ((input - target) / scale).square()
    if alpha == 2:
        return square / 2
    if alpha == 0:
        return torch.log1p(square / 2)
    if math.isinf(alpha):
        sign = math.copysign(1.0, alpha)
        return sign * torch.expm1(sign * square / 2)
    b = abs(alpha - 2)
    return b / alpha * ((square / b + 1) ** (alpha / 2) - 1)


class GeneralRobustLoss(Loss):
    """``general_robust_loss`` as a module.

    >>> import torch
    >>> loss = GeneralRobustLoss(alpha=-2.0, scale=2.0)
    >>> loss(torch.tensor([4.0]), torch.tensor([0.0])).item(), loss.coupling
    (1.0, 'additive')
    """

    coupling = "additive"

    def __init__(
        self, reduction: Reduction = "mean", alpha: float = 1.0, scale: float = 1.0, *, empty: Empty = "zero"
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_shape(alpha)
        require_positive(_WHERE, scale=scale)
        self.reduction: Reduction = reduction
        self.alpha = alpha
        self.scale = scale
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
        return general_robust_loss(
            input,
            target,
            self.reduction,
            self.alpha,
            self.scale,
            weight,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
