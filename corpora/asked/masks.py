"""Why are all my losses NaN? A mask with a wrong complement, right ones, and torch.where, in one regression."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from corpora.asked.answer import NOTES, Answer, claim

STEPS = 300


def by_parts(complement: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Huber's loss of gaps |e|, threshold 1, as a sum of two parts: ``complement(gap, inside)`` is the second mask."""

    def loss(gap: Tensor) -> Tensor:
        inside = gap <= 1.0
        return ((gap - 0.5) * complement(gap, inside) + inside * gap.square() / 2).mean()

    return loss


WRONG = "outside = 1 - gap"
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    WRONG: by_parts(lambda gap, inside: 1 - gap),
    "outside = ~inside": by_parts(lambda gap, inside: ~inside),
    "outside = 1 - inside.float()": by_parts(lambda gap, inside: 1 - inside.float()),
    "torch.where": lambda gap: torch.where(gap > 1.0, gap - 0.5, gap.square() / 2).mean(),
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
        loss = loss_of((model(x) - y).abs())
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
    wrong = rows[WRONG]
    told = f"begins at {wrong['loss at step 0']}, NaN from {wrong['NaN from']}"
    return Answer(
        "Two masks, or one condition",
        rows,
        {"1 - gap is the complement of the mask": claim(NOTES, wrong["NaN from"] == "never", told)},
    )
