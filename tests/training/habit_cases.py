"""Habits of a training loop on several ranks, all of which have them; each returns what the rank saw of it."""

from __future__ import annotations

from typing import Any

import torch
from tests.training.engines.data_parallel import wrapped
from tests.training.fault_cases import batches
from tests.training.token_model import cross_entropy, kept, model_of
from torch import nn

from gradwright.training import GradientAccumulator


def window_with(habit: str, **options: Any) -> int:
    """One window of four micro-batches under DDP."""
    model = wrapped(model_of(), "ddp")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    acc = GradientAccumulator(model, optimizer, accumulation_steps=4, count=kept, progress=False, **options)
    for window in acc.windows(batches()):
        for batch in window:
            if habit == "clears":
                optimizer.zero_grad()
            acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
            if habit == "clips":
                nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        acc.step()
    return acc.updates


def temperature_beside(engine: str, **options: Any) -> list[float]:
    """A parameter that the optimizer steps and the wrapped model does not hold: its value on this rank."""
    model, temperature = wrapped(model_of(), engine), nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    optimizer = torch.optim.SGD([*model.parameters(), temperature], 0.1)
    acc = GradientAccumulator(model, optimizer, accumulation_steps=2, count=kept, progress=False, **options)
    for window in acc.windows(batches()):
        for x, y in window:
            loss = nn.functional.cross_entropy(model(x) * temperature, y, reduction="sum", ignore_index=-100)
            acc.backward(loss, reduction="sum")
        acc.step()
    return [temperature.item(), acc.updates]


def unfreezes(**options: Any) -> int:
    """A layer that was frozen when DDP was made."""
    plain = model_of()
    plain[0].requires_grad_(False)
    model = wrapped(plain, "ddp")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    acc = GradientAccumulator(model, optimizer, accumulation_steps=2, count=kept, progress=False, **options)
    for window in acc.windows(batches()):
        for batch in window:
            acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
        acc.step()
        plain[0].requires_grad_(True)
    return acc.updates
