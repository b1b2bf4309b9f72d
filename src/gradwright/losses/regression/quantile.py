"""The quantile loss, or pinball loss: what a quantile minimises, as the median minimises the absolute error.

With the error e = target - input (positive, where the prediction is too low) and the quantile's level q,

    l(e) = q e          for e > 0
           (q - 1) e    for e < 0,              dl/dinput = -q for e > 0,  1 - q for e < 0

so that too low costs q and too high 1 - q for each unit: the mean over targets is least where a share q of them lies
below. At e = 0 any slope from -q to 1 - q would do; 0 is taken, so that what is right is left as it is. Koenker &
Bassett 1978, "Regression Quantiles", Econometrica 46(1), equation 3.1; with q = 1/2 it is half the absolute error.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.additive import Additive, Fault, nan_fault, require_broadcast
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real, require_same_shape
from gradwright.losses.common.module import Loss

_WHERE = "quantile_loss(input, target)"
_E = "(target - input)"
_LEVEL = Fault(
    "q",
    "not (q > 0 and q < 1)",
    lambda q: ~((q > 0) & (q < 1)),
    "is no level of a quantile",
    "a level lies between 0 and 1: 0.9, not 90",
)
# The middle piece, and not the last, for what is equal: a NaN is to stay one.
_QUANTILE = Additive(
    "quantile_loss", f"where({_E} > 0, q*{_E}, where({_E} == 0, 0, (q - 1)*{_E}))", (nan_fault(), _LEVEL)
)


def quantile_loss(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    q: float | Tensor = 0.5,
    weight: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """max(q e, (q - 1) e) for e = target - input: the loss of a prediction of the quantile of level ``q``.

    Shapes: ``input`` and ``target`` alike. ``q``: a number between 0 and 1, or a tensor that broadcasts to ``input``:
    of levels [Q], for predictions [..., Q]; a target [..., 1] is then the same for all levels. ``weight`` (0 or more,
    multiplies each element; a mean is divided by the count) and ``mask`` (bool: which elements count) broadcast to
    ``input``. Result: a scalar; of the shape of ``input`` with ``reduction="none"``. ``num_items``: what the sum is
    divided by instead of the count. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: of the loss, those of the input. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN target, a level outside 0 to 1, a negative weight, and options that
    can't be right.

    >>> import torch
    >>> quantile_loss(torch.zeros(2), torch.tensor([4.0, -4.0]), "none", q=0.75).tolist()
    [3.0, 1.0]
    >>> levels = torch.tensor([0.25, 0.5, 0.75])
    >>> quantile_loss(torch.zeros(1, 3), torch.tensor([[4.0]]), "none", levels).tolist()
    [[1.0, 2.0, 3.0]]
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    if not isinstance(q, Tensor):
        require_same_shape(_WHERE, input=input, target=target)
        _require_level(q)
        return _QUANTILE(_WHERE, {"input": input, "target": target}, {"q": float(q)}, options, weight)
    require_real(_WHERE, q=q)
    require_broadcast(_WHERE, "q", q, input)
    if not (q.ndim and input.shape[:-1] == target.shape[:-1] and target.shape[-1:] == (1,)):
        require_same_shape(_WHERE, input=input, target=target)
    return _QUANTILE(_WHERE, {"input": input, "target": target, "q": q}, {}, options, weight)


def _require_level(q: float) -> None:
    if not 0 < q < 1:
        raise refusal(f"q is {q}", where=_WHERE, do="hand over a level between 0 and 1: 0.9, not 90")


def reference(input: Tensor, target: Tensor, q: float | Tensor = 0.5) -> Tensor:
    """The unreduced loss, unfused."""
    error = target - input
    return torch.where(error > 0, q * error, torch.where(error == 0, torch.zeros_like(error), (q - 1) * error))


class QuantileLoss(Loss):
    """``quantile_loss`` as a module; a tensor of levels goes where the module goes, and is no part of its state.

    >>> import torch
    >>> loss = QuantileLoss(q=0.75)
    >>> loss(torch.tensor([0.0]), torch.tensor([4.0])).item(), loss.coupling
    (3.0, 'additive')
    """

    coupling = "additive"
    q: float | Tensor

    def __init__(self, reduction: Reduction = "mean", q: float | Tensor = 0.5, *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.reduction: Reduction = reduction
        if isinstance(q, Tensor):
            require_real(_WHERE, q=q)
            self.register_buffer("q", q, persistent=False)
        else:
            _require_level(q)
            self.q = q
        self.empty: Empty = empty

    def extra_repr(self) -> str:
        levels = f", q={told(self.q)}" if isinstance(self.q, Tensor) else ""
        return super().extra_repr() + levels

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        weight: Tensor | None = None,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return quantile_loss(
            input, target, self.reduction, self.q, weight, mask=mask, num_items=num_items, empty=self.empty
        )
