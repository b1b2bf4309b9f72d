"""``check_equivalence``: is the accumulated gradient of your model that of the full batch? And if not, why."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gradwright.errors import GradientError, UsageError
from gradwright.training.batches import cut, sample_count
from gradwright.training.counting import Count, Normalize, Reduction
from gradwright.training.coupled.outputs import Combine
from gradwright.training.equal import causes
from gradwright.training.equal.both_ways import BothWays, as_it_was, in_double
from gradwright.training.equal.causes import Cause
from gradwright.training.equal.criteria import criterion_reduction, is_criterion, of_pair

#: Relative errors that rounding may make of a sum in another order, through some layers.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 5e-2}


@dataclass(frozen=True)
class Equivalence:
    """What ``check_equivalence`` found.

    ``error``: |accumulated - full| / |full|, over all parameters (2-norm), in the model's own ``dtype``. ``exact``: the
    same in float64, of a copy; None where that can't be computed (``why_not_exact``). The verdict is float64's where it
    is known. ``by_parameter``: the error of each parameter, relative to its gradient's size, or a thousandth of all
    gradients' where that is more. ``causes``: why they differ. ``held_still``: the error with the layers among the
    causes in evaluation, where there are any. ``micro_batches``: how many the batch was cut into.
    """

    ok: bool
    error: float
    dtype: torch.dtype
    exact: float | None
    why_not_exact: str
    by_parameter: Mapping[str, float]
    causes: tuple[Cause, ...]
    held_still: float | None
    micro_batches: int

    def __bool__(self) -> bool:
        return self.ok

    @property
    def worst(self) -> str:
        """The parameter that is off the most."""
        return max(self.by_parameter, key=lambda name: self.by_parameter[name])

    def raise_if_wrong(self) -> None:
        """Raises: GradientError (an AssertionError) with this report, where they differ."""
        if not self.ok:
            raise GradientError(str(self))

    def __str__(self) -> str:
        verdict = "equals" if self.ok else "does NOT equal"
        kind = str(self.dtype).removeprefix("torch.")
        exact = "" if self.exact is None or self.dtype is torch.float64 else f", {self.exact:.1e} (float64)"
        lines = [
            f"the gradient of {self.micro_batches} micro-batches {verdict} the full batch's: relative error "
            f"{self.error:.1e} ({kind}){exact}",
            f"  worst  {self.worst}: {self.by_parameter[self.worst]:.1e}",
        ]
        if self.exact is None:
            lines.append(f"  float64 was not examined: {self.why_not_exact}")
        for cause in self.causes:
            lines += [f"  why    {cause.why}", f"  do     {cause.do}"]
        if self.held_still is not None:
            lines.append(f"  with these layers held still (eval) the error is {self.held_still:.1e}")
        return "\n".join(lines)


def check_equivalence(
    model: nn.Module,
    loss: Callable[..., Any],
    batch: Any,
    *,
    micro_batch_size: int | None = None,
    reduction: Reduction | None = None,
    normalize: Normalize | None = None,
    count: Count | Mapping[str, Count] | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    combine: Combine = "concatenate",
    split: Callable[[Any, int], list[Any]] = cut,
    tolerance: float | None = None,
) -> Equivalence:
    """Whether accumulating ``batch`` in micro-batches gives the gradient of all of it at once, on this very model.

    ``loss(model, micro_batch)``: what ``GradientAccumulator.backward`` takes, made with ``reduction``
    ("mean", where it is not said); or a criterion (``nn.CrossEntropyLoss()``, a function of ``torch.nn.functional`` or
    ``gradwright.losses``), which is given ``(model(inputs), targets)`` of a batch that is such a pair. ``normalize``,
    ``count``, ``split``: as there (without them by samples). With ``forward(model, micro_batch)`` it is
    ``coupled_update`` that is examined: then ``loss`` is a function of what ``forward`` returns.
    It is tried in the model's own dtype, and in float64 on a copy, by which rounding is told from what is wrong.
    Random numbers begin alike on both ways (so the masks of one dropout layer are the same; of several they are not).
    Where the gradients differ, the report says why: batch normalisation, dropout, a loss that couples samples,
    denominators (a mean of means), a forward that does not repeat.
    ``micro_batch_size``: without it two thirds of the batch, so that the second micro-batch is smaller.
    ``tolerance``: of the relative error in the dtype that decides; else 1e-10 in float64, 1e-4 in float32.

    The model is left as it was: parameters, buffers, ``.grad``, training flags, and the random state.
    Cost: the batch's forward and backward three times in each dtype, some more where they differ. Memory: a copy of the
    model in float64, gradients of it twice, and the graph of the full batch.
    Raises: UsageError, where accumulation itself is refused (a mean that is passed as a sum), the batch is not cut, or
    the model is wrapped by an engine (hand over the module in it).

    >>> from torch.nn import functional as F
    >>> x, y = torch.randn(6, 3), torch.tensor([0, 1, -100, -100, -100, 1])
    >>> def ce(model, batch):
    ...     return F.cross_entropy(model(batch[0]), batch[1])
    >>> model = nn.Linear(3, 2)
    >>> check_equivalence(model, ce, (x, y), micro_batch_size=2, count=lambda b: (b[1] != -100).sum()).ok
    True
    >>> check_equivalence(model, ce, (x, y), micro_batch_size=3, normalize="steps").causes[0].kind
    'denominators'
    """
    if hasattr(model, "require_backward_grad_sync") or hasattr(model, "set_requires_gradient_sync"):
        raise UsageError(
            f"{type(model).__name__} shares gradients between ranks: hand over the module in it, unwrapped"
        )
    dtype = _dtype_of(model)
    normalize = normalize or ("items" if count is not None else "samples")
    if forward is None and is_criterion(loss):
        reduction, loss = reduction or criterion_reduction(loss), of_pair(loss)
    size = micro_batch_size or max(1, 2 * sample_count(batch) // 3)
    ways = BothWays(loss, forward, combine, split, size, reduction or "mean", normalize, count)
    with as_it_was(model):
        found = ways.compared(model, batch)
        exact, why_not, subject, data = found if dtype is torch.float64 else None, "", model, batch
        if exact is None:
            try:
                subject, data = in_double(copy.deepcopy(model)), in_double(batch)
                exact = ways.compared(subject, data)
            except Exception as error:  # of the user's code, in a dtype that it was not written for
                why_not, subject, data = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}", model, batch
        decides = found if exact is None else exact
        bound = tolerance or TOLERANCES[dtype if exact is None else torch.float64]
        why, held_still = causes.causes_of(ways, subject, data, decides, bound)
        if not why and found.error > TOLERANCES.get(dtype, 5e-2):
            why = (causes.rounding(dtype, found.error),)
    return Equivalence(
        ok=decides.error <= bound and decides.repeat <= bound,
        error=found.error,
        dtype=dtype,
        exact=None if exact is None else exact.error,
        why_not_exact=why_not,
        by_parameter=decides.by_parameter,
        causes=why,
        held_still=held_still,
        micro_batches=found.micro_batches,
    )


def _dtype_of(model: nn.Module) -> torch.dtype:
    """Of the parameters, the one of the lowest precision."""
    kinds = {one.dtype for one in model.parameters() if one.requires_grad and one.is_floating_point()}
    if not kinds:
        raise UsageError("the model has no parameters that need a gradient")
    return max(kinds, key=lambda kind: torch.finfo(kind).eps)
