"""Where does a custom gradient really help? Beside plain autograd of the same forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from corpora.asked.answer import TUTORIAL, Answer, Rows, claim
from corpora.asked.measuring import error, in_turn, peak_bytes, ratio


class Huber(torch.autograd.Function):
    """A loss of one's own, with its backward by hand."""

    @staticmethod
    def forward(ctx: Any, prediction: Tensor, target: Tensor) -> Tensor:
        error = prediction - target
        near = error.clamp(-1, 1)
        ctx.save_for_backward(near)
        return (near * (error - 0.5 * near)).mean()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (near,) = ctx.saved_tensors
        return grad_output / near.numel() * near, None


def plain_huber(prediction: Tensor, target: Tensor) -> Tensor:
    gap = (prediction - target).abs()
    return torch.where(gap > 1, gap - 0.5, gap.square() / 2).mean()


def loss_of_ones_own(rows: Rows, rounds: int) -> tuple[bool, str]:
    """Whether autograd gives another gradient there, and what is told of it."""
    prediction, target = torch.randn(300_000, requires_grad=True), torch.randn(300_000)
    jobs: dict[str, Callable[[], Any]] = {
        "plain": lambda: torch.autograd.grad(plain_huber(prediction, target), prediction),
        "custom": lambda: torch.autograd.grad(Huber.apply(prediction, target), prediction),
    }
    took = in_turn(jobs, rounds)
    speed = ratio(took["plain"], took["custom"])
    peaks = [peak_bytes(job) / prediction.numel() for job in jobs.values()]
    off = error(jobs["custom"]()[0], jobs["plain"]()[0])
    rows["a loss of one's own: Huber, 3e5"] = {
        "plain autograd": f"right, {peaks[0]:.0f} bytes an element at the peak",
        "custom gradient": f"the same ({off}), {speed:.1f} times as fast, {peaks[1]:.0f} bytes an element",
    }
    differs = float(off) > 1e-5
    told = f"{'another' if differs else 'the same'} gradient without one"
    return differs, f"{told}; a custom one is {speed:.1f} times as fast there"


def stable(rows: Rows) -> str:
    """log(1 + exp(x)), whose slope is the sigmoid: autograd of the text is inf / inf."""
    softplus = gw.custom_gradient(
        lambda x: x.clamp(min=0) + torch.log1p(torch.exp(-x.abs())),
        lambda grad_output, x: torch.sigmoid(x) * grad_output,
    )
    x = torch.tensor([-100.0, 0.0, 100.0], requires_grad=True)
    (naive,) = torch.autograd.grad(torch.log(1 + torch.exp(x)).sum(), x)
    (mended,) = torch.autograd.grad(softplus(x).sum(), x)
    rows["log(1 + exp(x)) at -100, 0, 100"] = {
        "plain autograd": f"slopes {[round(v, 3) for v in naive.tolist()]}",
        "custom gradient": f"slopes {[round(v, 3) for v in mended.tolist()]}",
    }
    return f"log(1 + exp(100)) has the slope {naive[2].item()} by autograd, {mended[2].item()} by hand"


def steps_of_a_solver(rows: Rows, rounds: int) -> str:
    """z = tanh(w z + x): 100 iterations recorded, or the implicit function theorem at the end."""
    torch.manual_seed(0)
    w = (torch.randn(64, 64) * 0.05).requires_grad_()
    x, start = torch.randn(256, 64), torch.zeros(256, 64)

    def update(z: Tensor, w: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(z @ w + x)

    def unrolled() -> tuple[Tensor, ...]:
        z = start
        for _ in range(100):
            z = update(z, w, x)
        return torch.autograd.grad(z.sum(), w)

    def implicit() -> tuple[Tensor, ...]:
        return torch.autograd.grad(gw.fixed_point(update, start, w, x).sum(), w)

    peaks = [peak_bytes(job) / 2**20 for job in (unrolled, implicit)]
    off = error(implicit()[0], unrolled()[0])
    took = in_turn({"unrolled": unrolled, "implicit": implicit}, min(rounds, 5))
    speed = ratio(took["unrolled"], took["implicit"])
    rows["a fixed point of 100 iterations"] = {
        "plain autograd": f"{peaks[0]:.1f} MiB",
        "custom gradient": f"{peaks[1]:.1f} MiB, {speed:.1f} times as fast, {off} off (gw.fixed_point)",
    }
    return f"a solver's memory falls from {peaks[0]:.1f} to {peaks[1]:.1f} MiB"


def no_slope(rows: Rows) -> str:
    """A step function in the way: the gradient is 0 almost everywhere, which is right and of no use."""
    torch.manual_seed(0)
    x, y = torch.randn(200, 4), torch.randint(2, (200, 1)).float()
    y = (x @ torch.tensor([[1.0], [-2.0], [0.5], [1.0]]) > 0).float()

    def accuracy(through: Callable[[Tensor], Tensor]) -> float:
        torch.manual_seed(1)
        weight = (0.1 * torch.randn(4, 1)).requires_grad_()
        for _ in range(200):
            loss = (through(torch.sigmoid(x @ weight)) - y).square().mean()
            (slope,) = torch.autograd.grad(loss, weight)
            weight = (weight - 1.0 * slope).detach().requires_grad_()
        return float((((x @ weight) > 0).float() == y).float().mean())

    plain, surrogate = accuracy(torch.round), accuracy(gw.round_through)
    rows["a rounding in the way"] = {
        "plain autograd": f"gradient 0: {plain:.0%} of 200 right after 200 steps",
        "custom gradient": f"{surrogate:.0%} (gw.round_through, a declared surrogate)",
    }
    return f"behind a rounding {plain:.0%} right by autograd's zero, {surrogate:.0%} by a surrogate"


def measure(rounds: int, quick: bool) -> Answer:
    rows: Rows = {}
    (differs, own), numbers, memory, flow = (
        loss_of_ones_own(rows, rounds), stable(rows), steps_of_a_solver(rows, rounds), no_slope(rows)
    )  # fmt: skip
    return Answer(
        "Where a custom gradient helps",
        rows,
        {
            "a special loss needs a backward of its own": claim(TUTORIAL, differs, own),
            "autograd can miss the gradient that is wanted": claim(
                TUTORIAL,
                True,
                so_far="where it is right and of no use",
                measured=f"{flow}; {numbers}; {memory}",
            ),
        },
    )
