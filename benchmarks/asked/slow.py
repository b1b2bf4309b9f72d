"""Why is a custom Function slow in reverse mode? The loop of the question, and each of the reasons that are printed."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from asked.answer import SLOW, Answer, Rows, claim
from asked.measuring import error, in_turn, middle, operations, page_faults, peak_bytes, ratio, shown


class MySlowFunction(torch.autograd.Function):
    """As printed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        y = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * x[i, j]
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        grad_input = torch.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                grad_input[i, j] = 2 * x[i, j] * grad_output[i, j]
        return grad_input


class MyFastFunction(torch.autograd.Function):
    """As printed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


def _forwards() -> dict[str, Callable[[Tensor], Tensor]]:
    return {
        "MySlowFunction": MySlowFunction.apply,
        "MyFastFunction": MyFastFunction.apply,
        "x * x, no Function": lambda x: x * x,
        "torch.square(x)": torch.square,
    }


def loops(rounds: int, quick: bool) -> Answer:
    side = 40 if quick else 150
    torch.manual_seed(0)
    x, cotangent = torch.randn(side, side, requires_grad=True), torch.randn(side, side)
    ahead = {name: partial(forward, x) for name, forward in _forwards().items()}

    def back_of(forward: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
        y = forward(x)
        return lambda: torch.autograd.grad(y, x, cotangent, retain_graph=True)

    back = {name: back_of(forward) for name, forward in _forwards().items()}
    few = min(rounds, 3)
    forth = in_turn(ahead, few)
    took = in_turn(back, few)
    true = (2 * x * cotangent).detach()
    rows = {
        name: {
            "forward_us": shown(middle(forth[name]) * 1e6),
            "backward_us": shown(middle(took[name]) * 1e6),
            "operations, forward": f"{sum(vars_of(ahead[name])):,}",
            "operations, backward": f"{sum(vars_of(back[name])):,}",
            "error": error(back[name]()[0], true),
        }
        for name in ahead
    }
    share = ratio(took["MySlowFunction"], forth["MySlowFunction"])
    gain = ratio(took["MySlowFunction"], took["MyFastFunction"])
    plain = ratio(took["MyFastFunction"], took["x * x, no Function"])
    return Answer(
        f"Loops over elements, {side} x {side}",
        rows,
        {
            "the loops are extremely slow": claim(SLOW, gain > 10, f"backward {gain:,.0f} times as slow"),
            "the bottleneck is the backward rather than the forward": claim(
                SLOW, share > 2, f"the backward takes {share:.1f} times the forward, which loops as well"
            ),
            "gradients of built-in functions are pre-computed and optimised": claim(
                SLOW,
                vars_of(back["x * x, no Function"])[0] < vars_of(back["MyFastFunction"])[0],
                f"the formula is there; its values take {vars_of(back['x * x, no Function'])[0]} operations of every "
                f"backward, a Function's {vars_of(back['MyFastFunction'])[0]}, {plain:.2f} times as long",
            ),
        },
    )


def vars_of(way: Callable[[], Any]) -> tuple[int, int]:
    counted = operations(way)
    return counted.computed, counted.views


def backwards(rounds: int, quick: bool) -> Answer:
    """The backward's arithmetic alone, glibc as it comes: a large buffer comes in new pages each time."""
    side = 1000 if quick else 4000
    rows, ratios = measured(side, rounds)
    reused, kept = 1 / ratios[OWN], 1 / ratios[KEPT]
    told = f"one's own temporary makes it {reused:.2f} times as fast at {side} x {side}, a kept buffer {kept:.2f} times"
    return Answer(
        f"A vectorised backward, {side} x {side}",
        rows,
        {
            "reusing tensors minimises overhead": claim(
                SLOW, reused > 1.1, f"{told} (its results overwrite one another)"
            )
        },
    )


def retained(rounds: int, quick: bool) -> Answer:
    """The same after `gw.retain_freed_memory()`, which holds until the process ends: to be asked last."""
    gw.retain_freed_memory()
    rows: Rows = {}
    wrong: list[float] = []
    for side in (1000,) if quick else (1000, 4000):
        found, ratios = measured(side, rounds)
        rows |= {f"{side} x {side}: {name}": row for name, row in found.items()}
        wrong += [times for name, times in ratios.items() if name.startswith("wrong")]
    middle_one = statistics.median(wrong)
    told = (
        f"wrong backwards take {min(wrong):.2f} to {max(wrong):.2f} times the right one's time, median {middle_one:.2f}"
    )
    return Answer(
        "A vectorised backward, freed memory kept",
        rows,
        {"incorrect gradients often cost more": claim(SLOW, middle_one > 1.1, told)},
    )


OWN, KEPT = "(2 * x).mul_(g): in its own temporary", "all in a kept buffer"


def measured(side: int, rounds: int) -> tuple[Rows, dict[str, float]]:
    """Rows, and times as a multiple of the first."""
    torch.manual_seed(0)
    x, g = torch.randn(side, side), torch.randn(side, side)
    buffer = torch.empty_like(x)
    ways = {
        "2 * x * g": lambda: 2 * x * g,
        OWN: lambda: (2 * x).mul_(g),
        KEPT: lambda: torch.mul(x, 2, out=buffer).mul_(g),
        "wrong: the 2 is forgotten": lambda: x * g,
        "wrong: the cotangent is left out": lambda: 2 * x,
        "wrong: a sign": lambda: -2 * x * g,
    }
    took = in_turn(ways, rounds)
    ratios = {name: ratio(took[name], took["2 * x * g"]) for name in ways}
    true = 2 * x.double() * g.double()
    rows = {
        name: {
            "ms": shown(middle(took[name]) * 1e3),
            "times 2 * x * g": f"{ratios[name]:.2f}",
            "allocated at the peak, MiB": f"{peak_bytes(way) / 2**20:.1f}",
            "page faults": f"{page_faults(way):,}",
            "error": error(way(), true),
        }
        for name, way in ways.items()
    }
    return rows, ratios
