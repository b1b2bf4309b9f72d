"""When should I use zero_grad? The same regression under each place for it, and what clearing costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from corpora.asked.answer import NOTES, Answer, claim
from corpora.asked.measuring import in_turn, middle, peak_bytes, ratio, shown

STEPS = 200


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    return x, x @ torch.linspace(-1, 1, 8).unsqueeze(1)


def trained(place: str) -> tuple[float, float]:
    """The mean squared error in the end, and the cosine of .grad with the gradient of the weights at step 10."""
    x, y = data()
    torch.manual_seed(1)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cosine = 0.0
    for step in range(STEPS):
        if place == "before" or (place == "every fourth" and step % 4 == 0):
            optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        true = torch.autograd.grad(loss, model.weight, retain_graph=True)[0]
        loss.backward()
        if place == "between":
            optimizer.zero_grad()
        if step == 10 and model.weight.grad is not None:
            cosine = float(nn.functional.cosine_similarity(model.weight.grad.flatten(), true.flatten(), dim=0))
        if place != "every fourth" or step % 4 == 3:
            optimizer.step()
    return float((model(x) - y).square().mean().detach()), cosine


PLACES = {
    "before": "before each backward",
    "never": "never",
    "between": "between backward and step",
    "every fourth": "before each window of 4, step after it",
}


def places(rounds: int, quick: bool) -> Answer:
    rows: dict[str, dict[str, Any]] = {}
    for place, name in PLACES.items():
        loss, cosine = trained(place)
        rows[name] = {
            f"loss after {STEPS} backwards": f"{loss:.2g}",
            "cosine of .grad and the gradient, backward 11": f"{cosine:.3f}" if place != "between" else "no .grad",
        }
    last = f"loss after {STEPS} backwards"
    return Answer(
        "Where zero_grad stands",
        rows,
        {
            "zero_grad is for accumulating on purpose": claim(
                NOTES,
                float(rows["never"][last]) < float(rows[PLACES["before"]][last]),
                f"never cleared: loss {rows['never'][last]}, before each backward: {rows[PLACES['before']][last]}",
            ),
            "without zero_grad a step leaves the gradient's direction": claim(
                NOTES,
                float(rows["never"]["cosine of .grad and the gradient, backward 11"]) < 0.99,
                f"cosine {rows['never']['cosine of .grad and the gradient, backward 11']} with the gradient in step 11",
            ),
        },
    )


def clearing(rounds: int, quick: bool) -> Answer:
    """set_to_none, or zeros: a step of one large layer."""
    layer = nn.Linear(500 if quick else 1500, 500 if quick else 1500)
    x = torch.randn(8, layer.in_features)

    def step(*, to_none: bool) -> Callable[[], None]:
        def run() -> None:
            layer.zero_grad(set_to_none=to_none)
            layer(x).sum().backward()

        return run

    jobs = {"zero_grad(), which sets None": step(to_none=True), "zero_grad(set_to_none=False)": step(to_none=False)}
    took = in_turn(jobs, rounds)
    first = took["zero_grad(), which sets None"]
    rows: dict[str, dict[str, object]] = {}
    for name, job in jobs.items():
        rows[name] = {
            "us": shown(middle(took[name]) * 1e6),
            "times None": f"{ratio(took[name], first):.2f}",
            "allocated in the step, MiB": f"{peak_bytes(job) / 2**20:.1f}",
        }
    return Answer("What clearing costs", rows)
