"""The negative log-likelihood of a target under a normal distribution whose mean and variance are predicted.

With the error e = input - target and the variance v = max(var, eps),

    l(e, v) = (log(v) + e²/v)/2,   plus log(2 pi)/2 where ``full``
    dl/de = e/v,        dl/dv = (1/v - e²/v²)/2

Nix & Weigend 1994, "Estimating the mean and variance of the target probability distribution", ICNN;
torch.nn.GaussianNLLLoss has the same terms. As there, the bound by eps is passed over by the gradient: a variance below
eps gets dl/dv at eps, and not 0, so that it can leave where it should not be.

NOTE [Held]: v is written var + max(eps - held, 0), ``held`` being ``var`` without a gradient: the value is the bounded
one, to the bit where var >= eps, and the slope is 1. The kernel reads the same memory by both names.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal
from gradwright.losses.common.additive import Additive, Fault, nan_fault
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    require_not_negative,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss

_WHERE = "gaussian_nll_loss(input, target, var)"
_E = "(input - target)"
_V = "(var + max(eps - held, 0))"
_VARIANCE = Fault(
    "var",
    "not (var >= 0)",
    lambda var: ~(var >= 0),
    "is negative or NaN",
    "predict it by its logarithm, or through a softplus: var=softplus(output)",
)
# e (e/v) and not e²/v: e² would overflow where a large v is meant for large errors.
_NLL = Additive("gaussian_nll_loss", f"0.5*(log{_V} + {_E}*({_E}/{_V})) + constant", (nan_fault(), _VARIANCE))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """(log(v) + e²/v)/2 for errors e = input - target and the variance v = max(var, eps).

    Shapes: ``input`` and ``target`` alike. ``var``: of their shape, or one variance for each row: without the last
    axis, or with 1 in its place; or a number. ``mask`` (bool: which elements count) broadcasts to ``input``. Result: a
    scalar; of the shape of ``input`` with ``reduction="none"``. ``full``: with the constant log(2 pi)/2.
    ``num_items``: what the sum is divided by instead of the count. ``empty``: a mean of nothing is 0 ("zero") or NaN
    ("nan").
    Gradients: of ``input``, ``target`` and ``var``; that of ``var`` passes over the bound by ``eps``, as torch's does.
    Units: of ``var``, those of the input squared. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: all three read, two gradients written: 20 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a variance that is negative or NaN, and options that can't
    be right.

    >>> import torch
    >>> gaussian_nll_loss(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 1.0]), torch.ones(2), reduction="none").tolist()
    [2.0, 0.0]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    require_not_negative(_WHERE, eps=eps)
    numbers = {"eps": float(eps), "constant": 0.5 * math.log(2 * math.pi) if full else 0.0}
    if not isinstance(var, Tensor):
        require_not_negative(_WHERE, var=var)
        return _NLL(
            _WHERE, {"input": input, "target": target}, {**numbers, "var": float(var), "held": float(var)}, options
        )
    require_real(_WHERE, var=var)
    var = _lined_up(var, input)
    return _NLL(_WHERE, {"input": input, "target": target, "var": var, "held": var.detach()}, numbers, options)


def _lined_up(var: Tensor, input: Tensor) -> Tensor:
    """With as many axes as the input. Raises: UsageError, where it is for no element, nor for a row."""
    if var.shape == input.shape:
        return var
    if input.ndim and var.shape == input.shape[:-1]:
        return var.unsqueeze(-1)
    if input.ndim and var.shape == (*input.shape[:-1], 1):
        return var
    raise refusal(
        f"input has shape {list(input.shape)}, var {list(var.shape)}",
        where=_WHERE,
        why="a variance belongs to each element, or to each row along the last axis",
        do=f"give it the shape {list(input.shape)}"
        + (f", or {[*input.shape[:-1], 1]}" if input.ndim else "")
        + ": var.expand_as(input), if that is meant",
    )


def reference(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6) -> Tensor:
    """The unreduced loss, unfused."""
    variance = torch.as_tensor(var, dtype=input.dtype, device=input.device)
    if variance.ndim == input.ndim - 1:
        variance = variance.unsqueeze(-1)
    bounded = variance + (variance.detach().clamp_min(eps) - variance.detach())
    constant = 0.5 * math.log(2 * math.pi) if full else 0.0
    return 0.5 * (torch.log(bounded) + (input - target).square() / bounded) + constant


class GaussianNLLLoss(Loss):
    """``gaussian_nll_loss`` as a module.

    >>> import torch
    >>> loss = GaussianNLLLoss(full=True)
    >>> round(loss(torch.zeros(1), torch.zeros(1), torch.ones(1)).item(), 6), loss.coupling
    (0.918939, 'additive')
    """

    coupling = "additive"

    def __init__(
        self, *, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean", empty: Empty = "zero"
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        require_not_negative(_WHERE, eps=eps)
        self.full = full
        self.eps = eps
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        var: Tensor | float,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return gaussian_nll_loss(
            input,
            target,
            var,
            self.full,
            self.eps,
            self.reduction,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
