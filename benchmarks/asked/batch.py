"""Can I get the gradient of a whole batch without a loop? The printed loop, both printed answers, and what works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import gradwright as gw
from asked.answer import BATCH, Answer, claim
from asked.measuring import in_turn, middle, peak_bytes, ratio, shown

Penalty = Callable[[Tensor, Tensor], Tensor]
grad = torch.autograd.grad


def looped(y: Tensor, z: Tensor) -> Tensor:
    """As in the question."""
    total = torch.zeros(())
    for j in range(len(y)):
        l1 = grad(y[j][0], z, create_graph=True)[0][j]
        l2 = grad(y[j][1], z, create_graph=True)[0][j]
        total = total + abs(torch.sqrt(l1**2 + l2**2) - 1).sum()
    return total


def first_answer(y: Tensor, z: Tensor) -> Tensor:
    """ "Make j the last index, then drop the loop and the indices"."""
    y = y.T
    (l1,) = grad(y[0], z, create_graph=True)
    (l2,) = grad(y[1], z, create_graph=True)
    return abs(torch.sqrt(l1**2 + l2**2) - 1).sum()


def second_answer(y: Tensor, z: Tensor) -> Tensor:
    y = y.permute(0, 2, 1)
    (l1,) = grad(y[:, 0], z, create_graph=True)
    (l2,) = grad(y[:, 1], z, create_graph=True)
    return torch.mean(torch.abs(torch.sqrt(l1**2 + l2**2) - 1))


def second_without_permute(y: Tensor, z: Tensor) -> Tensor:
    (l1,) = grad(y[:, 0], z, create_graph=True)
    (l2,) = grad(y[:, 1], z, create_graph=True)
    return torch.mean(torch.abs(torch.sqrt(l1**2 + l2**2) - 1))


def second_with_cotangents(y: Tensor, z: Tensor) -> Tensor:
    ones = torch.ones(len(y))
    (l1,) = grad(y[:, 0], z, ones, create_graph=True)
    (l2,) = grad(y[:, 1], z, ones, create_graph=True)
    return torch.mean(torch.abs(torch.sqrt(l1**2 + l2**2) - 1))


def sum_trick(y: Tensor, z: Tensor) -> Tensor:
    (l1,) = grad(y[:, 0].sum(), z, create_graph=True)
    (l2,) = grad(y[:, 1].sum(), z, create_graph=True)
    return abs(torch.sqrt(l1**2 + l2**2) - 1).sum()


def one_hot(y: Tensor, z: Tensor) -> Tensor:
    """torch's own batching of cotangents, one per entry of y: right for coupled samples, too."""
    count = y.numel()
    (rows,) = grad(y, z, torch.eye(count).view(count, *y.shape), create_graph=True, is_grads_batched=True)
    own = rows.view(*y.shape, *z.shape)[torch.arange(len(y)), :, torch.arange(len(y))]  # [B, K, D]
    return (own.flatten(1).norm(dim=1) - 1).abs().sum()


def by_jacobian(y: Tensor, z: Tensor) -> Tensor:
    blocks = gw.batch_jacobian(y, wrt=z, create_graph=True)
    return (torch.linalg.vector_norm(blocks, dim=1) - 1).abs().sum()


WAYS: dict[str, Penalty] = {
    "the loop of the question": looped,
    "first answer: j last, no indices": first_answer,
    "second answer: permute(0, 2, 1)": second_answer,
    "second answer, permute left out": second_without_permute,
    "second answer, with grad_outputs": second_with_cotangents,
    "sum trick": sum_trick,
    "is_grads_batched": one_hot,
    "gw.batch_jacobian": by_jacobian,
    "gw.penalties.unit_norm_penalty": lambda y, z: gw.penalties.unit_norm_penalty(y, wrt=z),
}


def network() -> tuple[nn.Module, nn.Module]:
    """1 -> 16 -> 2 behind the node: "in the real one there are more layers in between"."""
    torch.manual_seed(0)
    return nn.Linear(2, 1, bias=False), nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))


def measure(rounds: int, quick: bool) -> Answer:
    samples = 16 if quick else 128
    head, tail = network()
    x, target = torch.randn(samples, 2), torch.randn(samples, 2)

    def step_of(penalty: Penalty) -> Callable[[], Tensor]:
        def step() -> Tensor:
            for module in (head, tail):
                module.zero_grad()
            z = head(x)
            y = tail(z)
            found = penalty(y, z)
            (nn.functional.mse_loss(y, target) + found).backward()
            return found

        return step

    jobs: dict[str, Callable[[], Tensor]] = {}
    rows: dict[str, dict[str, Any]] = {}
    true = float(step_of(looped)().detach())
    for name, penalty in WAYS.items():
        step = step_of(penalty)
        try:
            found = float(step().detach())
        except RuntimeError as raised:
            short = " ".join(str(raised).split()).split(" (")[0][:70]
            rows[name] = {"penalty / the loop's": f"raises: {short}"}
            continue
        jobs[name] = step
        rows[name] = {"penalty / the loop's": f"{found / true:.6f}"}
    took = in_turn(jobs, min(rounds, 5))
    loop = took["the loop of the question"]
    for name, row in rows.items():
        row["step_ms"] = shown(middle(took[name]) * 1e3) if name in took else "-"
        row["times as fast"] = shown(ratio(loop, took[name])) if name in took else "-"
        row["peak MiB"] = f"{peak_bytes(jobs[name]) / 2**20:.2f}" if name in took else "-"
    raises = {name: "raises" in rows[name]["penalty / the loop's"] for name in rows}
    share = rows["second answer, with grad_outputs"]["penalty / the loop's"]
    return Answer(
        f"The penalty of a batch of {samples}",
        rows,
        {
            "make j the last index, then remove the loop": claim(
                BATCH, not raises["first answer: j last, no indices"], "raises RuntimeError: no scalar, no grad_outputs"
            ),
            "output.permute(0, 2, 1), then grad of each column": claim(
                BATCH,
                not raises["second answer: permute(0, 2, 1)"],
                "raises RuntimeError: y is 2-D; without the permute it raises as well",
            ),
            "mean in place of the loop's sum": claim(
                BATCH, abs(float(share) - 1) < 1e-3, f"another loss: {share} of the loop's, 1 / {samples}"
            ),
            "computing all gradients at once is much faster": claim(
                BATCH,
                ratio(loop, took["sum trick"]) > 3,
                f"the sum trick, {rows['sum trick']['times as fast']} times as fast",
            ),
        },
    )
