"""A case of accumulation, run by GradientAccumulator and by hand over the full batch; the law that both agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from tests.training.token_model import Batch, cross_entropy, drawn, flat, joined, kept, model_of, relative
from torch import Tensor, nn

from gradwright.training import GradientAccumulator

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}


@dataclass(frozen=True)
class Case:
    """Windows of micro-batches of ``sizes`` (without ignored labels in none of them, but for ``empty``).

    ``how``: who says the number of items: "count", "items" (at backward), "samples", "mapping" (count, by name).
    """

    windows: tuple[tuple[int, ...], ...] = ((3, 1, 4),)
    empty: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64
    reduction: str = "sum"
    how: str = "count"
    options: dict[str, Any] = field(default_factory=dict)
    scale: float | None = None
    max_norm: float | None = None
    decay: float | None = None
    seed: int = 0

    def batches(self) -> list[list[Batch]]:
        return [
            drawn(sizes, self.dtype, self.seed + 1000 * at, empty=self.empty) for at, sizes in enumerate(self.windows)
        ]


def _optimizer(model: nn.Module, case: Case) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    schedule = case.decay and torch.optim.lr_scheduler.ExponentialLR(optimizer, case.decay)
    return optimizer, schedule or None


def _mean(case: Case, model: nn.Module, batch: Batch) -> Tensor:
    """The loss of the full batch."""
    items = float(len(batch[1])) if case.how == "samples" else float(kept(batch))
    return cross_entropy(model, batch, "sum") / items


def by_hand(case: Case) -> tuple[Tensor, Tensor]:
    """The last window's gradient, and the parameters after all, of steps on the full batch."""
    model = model_of(case.dtype)
    optimizer, schedule = _optimizer(model, case)
    for batches in case.batches():
        optimizer.zero_grad()
        _mean(case, model, joined(batches)).backward()
        if case.max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case.max_norm)
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return flat(model.parameters()), torch.cat([one.detach().reshape(-1) for one in model.parameters()])


def accumulated(case: Case) -> tuple[Tensor, Tensor]:
    """The same by GradientAccumulator."""
    model = model_of(case.dtype)
    optimizer, schedule = _optimizer(model, case)
    hows: dict[str, dict[str, Any]] = {
        "count": {"count": kept},
        "mapping": {"count": {"loss": kept}},
        "items": {},
        "samples": {"normalize": "samples"},
    }
    how = hows[case.how]
    options = {"accumulation_steps": max(len(sizes) for sizes in case.windows)} | how | case.options
    scaler = torch.amp.GradScaler("cpu", init_scale=case.scale) if case.scale else None
    acc = GradientAccumulator(
        model, optimizer, scaler=scaler, max_norm=case.max_norm, scheduler=schedule, progress=False, **options
    )
    for batches in case.batches():
        window = acc.window(batches)
        for batch in window:
            reduction = "sum" if case.how == "samples" else case.reduction
            loss = cross_entropy(model, batch, reduction)
            acc.backward(loss, reduction=reduction, items=kept(batch) if case.how == "items" else None)
        assert acc.step().stepped
    return flat(model.parameters()), torch.cat([one.detach().reshape(-1) for one in model.parameters()])


def difference(case: Case) -> float:
    """Of the gradients and of the parameters after all steps, relative, the larger one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found, expected = accumulated(case), by_hand(case)
    return max(relative(one, other) for one, other in zip(found, expected, strict=True))
