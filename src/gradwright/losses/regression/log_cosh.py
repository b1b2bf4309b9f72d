"""The log-cosh loss: a square near the target, the absolute error less log 2 far out.

With the error e = input - target,

    l(e) = log(cosh(e)),          dl/de = tanh(e),          d²l/de² = 1 - tanh(e)²

cosh overflows at |e| = 89 in float32, and the common way out of it, |e| + softplus(-2 |e|) - log 2, cancels near 0.
What is computed is neither: see ``log_cosh`` in kernels/formula/composed.py. Chen, Chen, Zheng & Ye 2019, "Log
Hyperbolic Cosine Loss Improves Variational Auto-Encoder"; Green 1990, IEEE Trans. Med. Imaging 9(1), as a potential.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.losses.common.additive import Additive
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real, require_same_shape
from gradwright.losses.common.module import Loss

_WHERE = "log_cosh_loss(input, target)"
_LOG_COSH = Additive("log_cosh_loss", "log_cosh(input - target)")


def log_cosh_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    weight: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """log(cosh(e)) for errors e = input - target, to a few units in the last place at any size of e.

    Shapes: ``input`` and ``target`` alike; ``weight`` (0 or more, multiplies each element; a mean is divided by the
    count, not by the weights' sum) and ``mask`` (bool: which elements count) broadcast to them. Result: a scalar; of
    the shape of ``input`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count.
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: the error must have none: divide it by what it is measured in. Dtype: torch's promotion; computed in float32
    at least. Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a negative weight, and options that can't be right.

    >>> import torch
    >>> log_cosh_loss(torch.tensor([0.0, 1e4]), torch.zeros(2), reduction="none").tolist()
    [0.0, 9999.306640625]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    return _LOG_COSH(_WHERE, {"input": input, "target": target}, {}, options, weight)


def reference(input: Tensor, target: Tensor) -> Tensor:
    """The unreduced loss, unfused. Near 0 it is log1p(2 sinh²(e/2)), as cosh(e) = 1 + 2 sinh²(e/2)."""
    error = input - target
    is_near = error.abs() < 1
    near = torch.where(is_near, error, 0.0)
    far = torch.where(is_near, 1.0, error).abs()
    return torch.where(
        is_near,
        torch.log1p(2 * torch.sinh(near / 2).square()),
        far + torch.log1p(torch.exp(-2 * far)) - math.log(2),
    )


class LogCoshLoss(Loss):
    """``log_cosh_loss`` as a module.

    >>> import torch
    >>> loss = LogCoshLoss(reduction="sum")
    >>> round(loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), 6), loss.coupling
    (0.433781, 'additive')
    """

    coupling = "additive"

    def __init__(self, reduction: Reduction = "mean", *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.reduction: Reduction = reduction
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
        return log_cosh_loss(input, target, self.reduction, weight, mask=mask, num_items=num_items, empty=self.empty)
