"""Why is a custom Function slow in reverse mode? A loop over elements, and each of the reasons that are given."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from corpora.asked.answer import SLOW, Answer, Rows, claim
from corpora.asked.measuring import error, in_turn, middle, operations, page_faults, peak_bytes, ratio, shown


class CubeByElement(torch.autograd.Function):
    """Visits every element in Python, forward and backward."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        ctx.save_for_backward(t)
        out = torch.empty_like(t)
        rows, columns = t.shape
        for row, column in itertools.product(range(rows), range(columns)):
            out[row, column] = t[row, column] ** 2 * t[row, column]
        return out

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (t,) = ctx.saved_tensors
        slope = torch.empty_like(cotangent)
        rows, columns = t.shape
        for row, column in itertools.product(range(rows), range(columns)):
            slope[row, column] = 3 * t[row, column] ** 2 * cotangent[row, column]
        return slope


class CubeWhole(torch.autograd.Function):
    """The same as whole tensors."""

    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        ctx.save_for_backward(t)
        return t**3

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (t,) = ctx.saved_tensors
        return 3 * t**2 * cotangent


BUILT_IN = "t**3, no Function"
CUBES: dict[str, Callable[[Tensor], Tensor]] = {
    "CubeByElement": CubeByElement.apply,
    "CubeWhole": CubeWhole.apply,
    BUILT_IN: lambda t: t**3,
    "t * t * t, no Function": lambda t: t * t * t,
}


def loops(rounds: int, quick: bool) -> Answer:
    rows, columns = (30, 50) if quick else (120, 180)
    torch.manual_seed(0)
    t, cotangent = torch.randn(rows, columns, requires_grad=True), torch.randn(rows, columns)
    ahead = {name: partial(cube, t) for name, cube in CUBES.items()}

    def back_of(cube: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
        y = cube(t)
        return lambda: torch.autograd.grad(y, t, cotangent, retain_graph=True)

    back = {name: back_of(cube) for name, cube in CUBES.items()}
    few = min(rounds, 3)
    forth = in_turn(ahead, few)
    took = in_turn(back, few)
    true = (3 * t.double() ** 2 * cotangent).detach()
    found = {
        name: {
            "forward_us": shown(middle(forth[name]) * 1e6),
            "backward_us": shown(middle(took[name]) * 1e6),
            "operations, forward": f"{sum(counts_of(ahead[name])):,}",
            "operations, backward": f"{sum(counts_of(back[name])):,}",
            "error": error(back[name]()[0], true),
        }
        for name in ahead
    }
    share = ratio(took["CubeByElement"], forth["CubeByElement"])
    gain = ratio(took["CubeByElement"], took["CubeWhole"])
    plain = ratio(took["CubeWhole"], took[BUILT_IN])
    of_built_in, of_function = counts_of(back[BUILT_IN])[0], counts_of(back["CubeWhole"])[0]
    return Answer(
        f"Loops over elements, {rows} x {columns}",
        found,
        {
            "loops over elements make it slow": claim(SLOW, gain > 10, f"backward {gain:,.0f} times as slow"),
            "what is slow is the backward, not the forward": claim(
                SLOW, share > 2, f"the backward takes {share:.1f} times the forward, which loops as well"
            ),
            "a built-in's gradient is there before the backward": claim(
                SLOW,
                of_built_in < of_function,
                f"the formula is there; its values take {of_built_in} operations of every "
                f"backward, a Function's {of_function}, {plain:.2f} times as long",
            ),
        },
    )


def counts_of(way: Callable[[], Any]) -> tuple[int, int]:
    """Operations that compute, and views."""
    counted = operations(way)
    return counted.computed, counted.views


def backwards(rounds: int, quick: bool) -> Answer:
    """The backward's arithmetic alone, glibc as it comes: a large buffer comes in new pages each time."""
    side = SMALL if quick else LARGE
    rows, ratios = measured(side, rounds)
    reused, kept = 1 / ratios[OWN], 1 / ratios[KEPT]
    told = f"one's own temporary makes it {reused:.2f} times as fast at {side} x {side}, a kept buffer {kept:.2f} times"
    return Answer(
        f"A vectorised backward, {side} x {side}",
        rows,
        {"reusing tensors pays": claim(SLOW, reused > 1.1, f"{told} (its results overwrite one another)")},
    )


def retained(rounds: int, quick: bool) -> Answer:
    """The same after `gw.retain_freed_memory()`, which holds until the process ends: to be asked last."""
    gw.retain_freed_memory()
    rows: Rows = {}
    wrong: list[float] = []
    for side in (SMALL,) if quick else (SMALL, LARGE):
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
        {"a wrong gradient is often slower as well": claim(SLOW, middle_one > 1.1, told)},
    )


SMALL, LARGE = 800, 4000
RIGHT = "3 * t * t * g"
OWN, KEPT = "(3 * t).mul_(t).mul_(g): in its own temporary", "all in a kept buffer"


def measured(side: int, rounds: int) -> tuple[Rows, dict[str, float]]:
    """Rows, and times as a multiple of the first."""
    torch.manual_seed(0)
    t, g = torch.randn(side, side), torch.randn(side, side)
    buffer = torch.empty_like(t)
    ways = {
        RIGHT: lambda: 3 * t * t * g,
        OWN: lambda: (3 * t).mul_(t).mul_(g),
        KEPT: lambda: torch.mul(t, 3, out=buffer).mul_(t).mul_(g),
        "wrong: the 3 is forgotten": lambda: t * t * g,
        "wrong: the cotangent is left out": lambda: 3 * t * t,
        "wrong: a sign": lambda: -3 * t * t * g,
    }
    took = in_turn(ways, rounds)
    ratios = {name: ratio(took[name], took[RIGHT]) for name in ways}
    true = 3 * t.double() * t.double() * g.double()
    rows = {
        name: {
            "ms": shown(middle(took[name]) * 1e3),
            f"times {RIGHT}": f"{ratios[name]:.2f}",
            "allocated at the peak, MiB": f"{peak_bytes(way) / 2**20:.1f}",
            "page faults": f"{page_faults(way):,}",
            "error": error(way(), true),
        }
        for name, way in ways.items()
    }
    return rows, ratios
