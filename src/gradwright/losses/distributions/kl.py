"""The Kullback-Leibler divergence of a target distribution t from a prediction p.

Element by element, of log-probabilities x = log p and a target t (or its logarithm s), with 0 log 0 = 0,

    l = t (log t - x),        dl/dx = -t,        dl/dt = log t - x + 1
    l = exp(s) (s - x),       dl/dx = -exp(s),   dl/ds = exp(s) (s - x + 1)

Of a row of logits z, with m = max_k z_k and log p_k = z_k - m - log sum_j exp(z_j - m),

    l = sum_k t_k (log t_k - log p_k),     dl/dz_k = p_k sum_j t_j - t_k,     dl/dt_k = log t_k - log p_k + 1

The difference of the logarithms is taken before they are summed: near p = t it is small, where the sums of t log t and
of t log p would cancel. Where t_k = 0 its term and its slopes are 0 (the slope of t log t is infinite there; torch's
autograd has NaN), even where p_k is 0, too. Kullback and Leibler 1951, "On Information and Sufficiency", Annals of
Mathematical Statistics 22(1), equation 2.2; torch.nn.functional.kl_div has the element's form.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.kernels.calls.messages import refusal
from gradwright.kernels.formula.stages import Axes
from gradwright.losses.common.additive import Additive, Fault, nan_fault, require_broadcast
from gradwright.losses.common.arguments import (
    Empty,
    Options,
    options_of,
    refuse_values,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.dividing import counted, share_of
from gradwright.losses.common.module import Loss
from gradwright.losses.common.rowwise import Formulas, RowLoss, rowwise

Reduction = Literal["none", "sum", "mean", "batchmean"]
_WHERE = "kl_div(input, target)"
_IS_PROBABILITY = Fault(
    "target",
    "not (target >= 0)",
    lambda target: ~(target >= 0),
    "is negative or NaN",
    "hand over probabilities, 0 or more; of their logarithms log_target=True",
)
_OF_PROBABILITIES = Additive(
    "kl_div", "where(target == 0, 0, target * (log(where(target == 0, 1, target)) - input))", (_IS_PROBABILITY,)
)
_OF_LOGARITHMS = Additive(
    "kl_div", "where(target == -inf, 0, exp(target) * (where(target == -inf, 0, target) - input))", (nan_fault(),)
)


def _of_rows(log_target: bool) -> RowLoss:
    t, is_none = ("exp(t)", "t == -inf") if log_target else ("t", "t == 0")
    log_t = "t" if log_target else "log(t)"
    apart = f"({log_t} - (z - m) + l)"
    inputs: dict[str, Axes] = {"z": "element", "t": "element"}
    stages = {
        "m": "max: z",
        "s": "sum: exp(z - m)",
        "st": f"sum: {t}",
        "l": "row: log(s)",
        "inverse": "row: 1 / s",
        "kl": f"sum: where({is_none}, 0, {t} * {apart})",
        "bad": f"sum: where({'t == t' if log_target else 't >= 0'}, 0, 1)",
    }
    times_t = f"{t} * " if log_target else ""
    return RowLoss(
        Formulas(
            inputs,
            stages,
            "kl",
            {
                "z": f"g * (st * (exp(z - m) * inverse) - {t})",
                "t": f"where({is_none}, 0, g * ({times_t}({apart} + 1)))",
            },
            "bad",
        )
    )


_ROWS = {log_target: _of_rows(log_target) for log_target in (False, True)}


def kl_div(
    input: Tensor,
    target: Tensor,
    reduction: Reduction = "mean",
    log_target: bool = False,
    *,
    from_logits: bool = False,
    dim: int = -1,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """target (log target - input), or KL(target || softmax(input)) of every row along ``dim`` (``from_logits``).

    Shapes: ``input`` log-probabilities (with ``from_logits`` logits) and ``target`` alike: probabilities, or their
    logarithms with ``log_target``. The unreduced loss has their shape; with ``from_logits`` one number for each row,
    that shape without ``dim``. ``mask`` (bool) broadcasts to it. Result: a scalar, or the unreduced loss with
    ``reduction="none"``. "mean" is divided by how many numbers of the unreduced loss count (as torch's is; that of
    log-probabilities is no KL divergence), "batchmean" by how many entries of its axis 0 have one, both by
    ``num_items``, if given. ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Units: nats. Dtype: torch's promotion; computed in float32 at least. A target of 0 has gradient 0.
    Coupling: additive. Cost: one pass: both read, the gradient written: 12 bytes an element in float32.
    Raises: UsageError for shapes that differ, a negative probability, and options that can't be right.

    >>> import torch
    >>> z, t = torch.tensor([[0.0, 1e4]]), torch.tensor([[0.0, 1.0]])
    >>> kl_div(z, t, "batchmean", from_logits=True).item()
    0.0
    >>> kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]), "sum").item()
    0.130812...
    """
    is_batchmean = reduction == "batchmean"
    if reduction not in ("none", "sum", "mean", "batchmean"):
        raise refusal(f"reduction is {reduction!r}", where=_WHERE, do='"none", "sum", "mean" or "batchmean"')
    options = options_of(_WHERE, "mean" if is_batchmean else reduction, mask, num_items, empty)
    require_real(_WHERE, input=input, target=target)
    require_same_shape(_WHERE, input=input, target=target)
    if not from_logits:
        if is_batchmean and num_items is None:
            options = options._replace(num_items=_entries(input, mask))
        of = _OF_LOGARITHMS if log_target else _OF_PROBABILITIES
        return of(_WHERE, {"input": input, "target": target}, {}, options)
    if not -input.ndim <= dim < input.ndim:
        raise refusal(f"dim is {dim}, and input has shape {list(input.shape)}", where=_WHERE, do="name one of its axes")
    dim %= input.ndim
    if is_batchmean and num_items is None:
        # Of [C] and of axis 0 as the classes' there is no entry but a row.
        rows = input.narrow(dim, 0, min(1, input.shape[dim])).squeeze(dim)
        options = options._replace(num_items=_entries(rows, mask))
    return _against_rows(input, target, log_target, options, dim)


def _entries(unreduced: Tensor, mask: Tensor | None) -> float | Tensor:
    """How many entries of axis 0 of the unreduced loss have something that counts."""
    if mask is None or not unreduced.ndim:
        return counted(mask, unreduced.shape[0] if unreduced.ndim else 1)
    require_broadcast(_WHERE, "mask", mask, unreduced)
    return mask.expand(unreduced.shape).flatten(1).any(1).sum() if unreduced.ndim > 1 else counted(mask, len(unreduced))


def _against_rows(input: Tensor, target: Tensor, log_target: bool, options: Options, dim: int) -> Tensor:
    classes = input.shape[dim]
    if not classes:
        raise refusal(f"input has shape {list(input.shape)}: no class along axis {dim}", where=_WHERE, do="check it")
    mask = options.mask
    if mask is not None:
        rows = input.select(dim, 0)
        require_broadcast(_WHERE, "mask", mask, rows)
        mask = mask.expand(rows.shape)

    def look() -> None:
        values = target.detach()
        bad = values.isnan() if log_target else ~(values >= 0)
        if mask is not None:
            bad &= mask.unsqueeze(dim)
        what = "is NaN" if log_target else _IS_PROBABILITY.what
        refuse_values(_WHERE, {"target": (what, values, bad, _IS_PROBABILITY.do)})

    operands: dict[str, Any] = {"z": input, "t": target}
    return rowwise(
        _ROWS[log_target],
        operands,
        dim,
        options._replace(mask=mask),
        share_of(options, counted(mask, input.numel() // classes)),
        lambda z, t: reference(F.log_softmax(z, dim), t, log_target).sum(dim),
        look,
    )


def reference(input: Tensor, target: Tensor, log_target: bool = False) -> Tensor:
    """The loss of every element, unfused; of logits: the sum over the classes of ``reference(log_softmax(input))``."""
    is_none = target == (-torch.inf if log_target else 0)
    safe = torch.where(is_none, 0.0 if log_target else 1.0, target)
    apart = (safe if log_target else safe.log()) - torch.where(is_none, 0.0, input)
    return torch.where(is_none, 0.0, (safe.exp() if log_target else safe) * apart)


class KLDivLoss(Loss):
    """``kl_div`` as a module.

    >>> import torch
    >>> loss = KLDivLoss("batchmean", from_logits=True)
    >>> loss(torch.zeros(2, 4), torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 1.0, 0.0]])).item()
    0.693147...
    """

    coupling = "additive"

    def __init__(
        self,
        reduction: Reduction = "mean",
        log_target: bool = False,
        *,
        from_logits: bool = False,
        dim: int = -1,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, "mean" if reduction == "batchmean" else reduction, None, None, empty)
        self.reduction: Reduction = reduction
        self.log_target = log_target
        self.from_logits = from_logits
        self.dim = dim
        self.empty: Empty = empty

    def forward(
        self,
        input: Tensor,
        target: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return kl_div(
            input,
            target,
            self.reduction,
            self.log_target,
            from_logits=self.from_logits,
            dim=self.dim,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
