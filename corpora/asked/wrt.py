"""With respect to what? The sum trick where samples meet, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import gradwright as gw
from corpora.asked.answer import BATCH, Answer, claim
from corpora.asked.measuring import error, in_turn, ratio


class Attention(nn.Module):
    """Over the batch: every sample looks at every other."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT / x.shape[1] ** 0.5).softmax(dim=1) @ x


def tails() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    ends = lambda middle: nn.Sequential(nn.Linear(3, 8), middle, nn.Tanh(), nn.Linear(8, 2)).double()  # noqa: E731
    return {
        "Linear, Tanh": ends(nn.Identity()),
        "LayerNorm": ends(nn.LayerNorm(8)),
        "BatchNorm, eval()": ends(nn.BatchNorm1d(8)).eval(),
        "BatchNorm, train()": ends(nn.BatchNorm1d(8)),
        "attention over the batch": ends(Attention()),
    }


def exact(y: Tensor, z: Tensor) -> Tensor:
    """[B, K, D], entry by entry."""
    rows = [[torch.autograd.grad(y[b, k], z, retain_graph=True)[0][b] for k in range(2)] for b in range(len(y))]
    return torch.stack([torch.stack(row) for row in rows])


def sum_trick(y: Tensor, z: Tensor) -> Tensor:
    columns = [torch.autograd.grad(y[:, k].sum(), z, retain_graph=True)[0] for k in range(2)]
    return torch.stack(columns, dim=1)


def measure(rounds: int, quick: bool) -> Answer:
    rows: dict[str, dict[str, object]] = {}
    silent = []
    for name, tail in tails().items():
        z = torch.randn(32, 3, dtype=torch.float64, requires_grad=True)
        y = tail(z)
        true = exact(y, z)
        meet = False
        try:
            told = error(gw.batch_jacobian(y, wrt=z), true)
        except gw.CoupledBatch:
            told, meet = "raises CoupledBatch", True
        batch = "coupled" if meet else "auto"
        jobs: dict[str, Callable[[], Tensor]] = {
            "loop": partial(exact, y, z),
            "sum": partial(sum_trick, y, z),
            "ours": lambda y=y, z=z, batch=batch: gw.batch_jacobian(y, wrt=z, batch=batch),  # type: ignore[misc]
        }
        took = in_turn(jobs, min(rounds, 5))
        off = error(sum_trick(y, z), true)
        if meet:
            silent.append(off)
        rows[name] = {
            "sum trick: its error": off,
            "ours: its error": told,
            'ours, batch="coupled"': error(gw.batch_jacobian(y, wrt=z, batch="coupled"), true),
            "sum trick: times the loop's speed": f"{ratio(took['loop'], took['sum']):.1f}",
            "ours: times the loop's speed": f"{ratio(took['loop'], took['ours']):.1f}",
        }
    return Answer(
        "The sum trick where samples meet",
        rows,
        {
            "one backward does for a whole batch": claim(
                BATCH,
                float(str(rows["Linear, Tanh"]["sum trick: its error"])) < 1e-12,
                f"with BatchNorm or attention off by {' and '.join(silent)}",
                so_far="where no sample reaches another",
            )
        },
    )
