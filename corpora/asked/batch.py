"""Can I get the gradient of a whole batch without a loop? A loop, what people try in its place, and what works."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

import gradwright as gw
from corpora.asked.answer import BATCH, Answer, claim
from corpora.asked.measuring import in_turn, middle, peak_bytes, ratio, shown

Penalty = Callable[[Tensor, Tensor], Tensor]
grad = torch.autograd.grad


def by_loop(out: Tensor, code: Tensor) -> Tensor:
    """A backward for each output of each sample; one row of its result is kept."""
    samples, outputs = out.shape
    jacobian = torch.zeros(samples, outputs, *code.shape[1:])  # [B, K, D]
    for sample in range(samples):
        for k in range(outputs):
            jacobian[sample, k] = grad(out[sample, k], code, create_graph=True)[0][sample]
    return (jacobian.square().sum(dim=(1, 2)).sqrt() - 1).abs().sum()


def distances(columns: Iterable[Tensor], code: Tensor, cotangent: Tensor | None = None) -> Tensor:
    """[B]: how far the norm of each sample's Jacobian is from 1; a backward for each of the columns, [B, D] each."""
    slopes = [grad(column, code, cotangent, create_graph=True)[0] for column in columns]
    return (torch.stack(slopes, dim=1).square().sum(dim=(1, 2)).sqrt() - 1).abs()


def one_hot(out: Tensor, code: Tensor) -> Tensor:
    """torch's own batching of cotangents, one per entry of ``out``: right for coupled samples, too."""
    count, each = out.numel(), torch.arange(len(out))
    (rows,) = grad(out, code, torch.eye(count).view(count, *out.shape), create_graph=True, is_grads_batched=True)
    own = rows.view(*out.shape, *code.shape)[each, :, each]  # [B, K, D]
    return (own.flatten(1).norm(dim=1) - 1).abs().sum()


def by_jacobian(out: Tensor, code: Tensor) -> Tensor:
    blocks = gw.batch_jacobian(out, wrt=code, create_graph=True)  # [B, K, D]
    return (torch.linalg.vector_norm(blocks, dim=(1, 2)) - 1).abs().sum()


LOOP = "a loop over samples and outputs"
LAST, PERMUTED = "samples moved last, indices dropped", "three axes permuted, then a column at a time"
COLUMNS, ONES = "a column at a time", "a column at a time, cotangents of ones, a mean"
WAYS: dict[str, Penalty] = {
    LOOP: by_loop,
    LAST: lambda out, code: distances(out.T, code).sum(),
    PERMUTED: lambda out, code: distances(out.permute(1, 2, 0), code).mean(),
    COLUMNS: lambda out, code: distances(out.unbind(1), code).mean(),
    ONES: lambda out, code: distances(out.unbind(1), code, torch.ones(len(out))).mean(),
    "sum trick": lambda out, code: distances(out.sum(dim=0), code).sum(),
    "is_grads_batched": one_hot,
    "gw.batch_jacobian": by_jacobian,
    "gw.penalties.unit_norm_penalty": lambda out, code: gw.penalties.unit_norm_penalty(out, wrt=code),
}


def network() -> tuple[nn.Module, nn.Module]:
    """3 -> 2, the code; 2 -> 16 -> 3 behind it, so that the derivatives differ from sample to sample."""
    torch.manual_seed(0)
    return nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))


def measure(rounds: int, quick: bool) -> Answer:
    samples = 16 if quick else 128
    encoder, decoder = network()
    x = torch.randn(samples, 3)

    def step_of(penalty: Penalty) -> Callable[[], Tensor]:
        def step() -> Tensor:
            for module in (encoder, decoder):
                module.zero_grad()
            code = encoder(x)
            out = decoder(code)
            found = penalty(out, code)
            (nn.functional.mse_loss(out, x) + found).backward()
            return found

        return step

    jobs: dict[str, Callable[[], Tensor]] = {}
    rows: dict[str, dict[str, Any]] = {}
    true = float(step_of(by_loop)().detach())
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
    for name, row in rows.items():
        row["step_ms"] = shown(middle(took[name]) * 1e3) if name in took else "-"
        row["times as fast"] = shown(ratio(took[LOOP], took[name])) if name in took else "-"
        row["peak MiB"] = f"{peak_bytes(jobs[name]) / 2**20:.2f}" if name in took else "-"
    raises = {name: "raises" in rows[name]["penalty / the loop's"] for name in rows}
    share = rows[ONES]["penalty / the loop's"]
    return Answer(
        f"The penalty of a batch of {samples}",
        rows,
        {
            "with the samples on the last axis, no index is needed": claim(
                BATCH, not raises[LAST], "raises RuntimeError: a vector, and no grad_outputs"
            ),
            "permute three axes, then differentiate each column": claim(
                BATCH,
                not raises[PERMUTED],
                "raises RuntimeError: the output has two axes; with nothing permuted it raises as well",
            ),
            "a mean stands for the loop's sum": claim(
                BATCH, abs(float(share) - 1) < 1e-3, f"another loss: {share} of the loop's, 1 / {samples}"
            ),
            "all derivatives at once are much faster": claim(
                BATCH,
                ratio(took[LOOP], took["sum trick"]) > 3,
                f"the sum trick, {rows['sum trick']['times as fast']} times as fast",
            ),
        },
    )
