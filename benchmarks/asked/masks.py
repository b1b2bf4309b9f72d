"""Why are all my losses NaN? The printed masks, their complements, and torch.where, in one regression."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from asked.answer import NOTES, Answer, claim

STEPS = 300


def masked(complement: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def loss(error: Tensor) -> Tensor:
        near = error <= 1.0
        return (0.5 * error**2 * near + (error - 0.5) * complement(error, near)).mean()

    return loss


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "1 - error, as printed": masked(lambda error, near: 1 - error),
    "~near": masked(lambda error, near: ~near),
    "1 - near.float()": masked(lambda error, near: 1 - near.float()),
    "torch.where": lambda error: torch.where(error <= 1.0, 0.5 * error**2, error - 0.5).mean(),
}


def trained(loss_of: Callable[[Tensor], Tensor]) -> dict[str, object]:
    torch.manual_seed(0)
    x = 2 * torch.rand(100, 1)
    y = 10 * x + 3 + 0.5 * torch.randn(100, 1)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(torch.abs(y - model(x)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ends = [step for step, value in enumerate(losses) if not math.isfinite(value)]
    nans = [step for step, value in enumerate(losses) if math.isnan(value)]
    return {
        "loss at step 0": f"{losses[0]:.4g}",
        "at step 20": f"{losses[20]:.4g}",
        f"at step {STEPS - 1}": f"{losses[-1]:.4g}",
        "not finite from": f"step {ends[0]}" if ends else "never",
        "NaN from": f"step {nans[0]}" if nans else "never",
        "ends at": f"{model.weight.item():.2f} x + {model.bias.item():.2f}",
    }


def measure(rounds: int, quick: bool) -> Answer:
    rows = {name: trained(loss) for name, loss in WAYS.items()}
    printed = rows["1 - error, as printed"]
    told = f"begins at {printed['loss at step 0']}, NaN from {printed['NaN from']}"
    return Answer(
        "Two masks, or one condition",
        rows,
        {"flag2 = 1 - error is the second mask": claim(NOTES, printed["NaN from"] == "never", told)},
    )
