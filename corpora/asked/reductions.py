"""grad can be implicitly created only for scalar outputs: which reduction, and what it does to a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from corpora.asked.answer import NOTES, Answer, claim


def huber(prediction: Tensor, target: Tensor) -> Tensor:
    """Of each element: with no reduction."""
    gap = (prediction - target).abs()
    return torch.where(gap > 1, gap - 0.5, gap.square() / 2)


def trained(samples: int, reduction: str) -> tuple[float, float]:
    """The norm of the first gradient, and the loss by its mean after 100 steps of SGD at 0.1."""
    torch.manual_seed(0)
    x = 2 * torch.rand(samples, 1)
    y = 3 * x + 1 + 0.1 * torch.randn(samples, 1)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = 0.0
    for step in range(100):
        optimizer.zero_grad()
        loss = huber(model(x), y)
        if reduction == "mean":
            loss.mean().backward()
        elif reduction == "sum":
            loss.sum().backward()
        else:
            loss.backward(torch.ones_like(loss))
        if step == 0:
            first = float(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm())
        optimizer.step()
    return first, float(huber(model(x), y).mean().detach())


def raises_without_reduction() -> bool:
    x = torch.ones(3, requires_grad=True)
    try:
        huber(x, torch.zeros(3)).backward()
    except RuntimeError:
        return True
    return False


def measure(rounds: int, quick: bool) -> Answer:
    rows: dict[str, dict[str, object]] = {}
    for reduction in ("mean", "sum", "ones"):
        name = {"mean": "loss.mean()", "sum": "loss.sum()", "ones": "loss.backward(torch.ones_like(loss))"}[reduction]
        rows[name] = {}
        for samples in (8, 64, 512):
            norm, loss = trained(samples, reduction)
            rows[name] |= {
                f"first gradient, B = {samples}": f"{norm:.3g}",
                f"loss after 100 steps, {samples}": f"{loss:.2g}",
            }
    holds = raises_without_reduction()
    return Answer(
        "Which reduction",
        rows,
        {
            "a loss has to be one number: its mean": claim(
                NOTES,
                holds,
                f"by the sum the first gradient of 512 samples is {rows['loss.sum()']['first gradient, B = 512']}, "
                f"by the mean {rows['loss.mean()']['first gradient, B = 512']}",
            )
        },
    )
