"""Why is my backward never called? How often each way of writing ``cube_backward`` comes to be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from corpora.asked.answer import TUTORIAL, Answer, claim
from corpora.asked.measuring import in_turn, middle, ratio, shown

STEPS = 10
BY_NAME = "two functions with matching names"


class Counted:
    """A backward of the cube that knows how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, arriving: Tensor, t: Tensor) -> Tensor:
        self.calls += 1
        return 3 * t.square() * arriving


def ways_of(backward: Counted) -> dict[str, Callable[[Tensor], Tensor]]:
    def cube(t: Tensor) -> Tensor:
        return t**3

    def with_attribute(t: Tensor) -> Tensor:
        return t**3

    with_attribute.backward = backward  # type: ignore[attr-defined]

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Tensor) -> Tensor:
            ctx.save_for_backward(t)
            return t**3

        @staticmethod
        def backward(ctx: Any, arriving: Tensor) -> Tensor:
            return backward(arriving, *ctx.saved_tensors)

    def hand(arriving: Tensor, t: Tensor) -> Tensor:
        return backward(arriving, t)

    return {
        BY_NAME: cube,
        "cube.backward = cube_backward": with_attribute,
        "autograd.Function": Cube.apply,
        "gw.custom_gradient(cube, cube_backward)": gw.custom_gradient(cube, hand),
    }


def measure(rounds: int, quick: bool) -> Answer:
    torch.manual_seed(0)
    layer, batch = torch.nn.Linear(6, 4), torch.randn(32, 6)
    backward = Counted()

    def step(cube: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        return lambda: cube(layer(batch)).sum().backward()

    calls = {}
    jobs = {name: step(cube) for name, cube in ways_of(backward).items()}
    for name, job in jobs.items():
        backward.calls = 0
        for _ in range(STEPS):
            job()
        calls[name] = backward.calls
    took = in_turn(jobs, rounds)
    rows = {
        name: {
            f"calls of the backward in {STEPS} steps": calls[name],
            "us a step": shown(middle(took[name]) * 1e6),
            "times plain autograd": f"{ratio(took[name], took[BY_NAME]):.2f}",
        }
        for name in jobs
    }
    told = claim(TUTORIAL, calls[BY_NAME] == STEPS, f"{calls[BY_NAME]} calls in {STEPS} steps")
    return Answer("Which backward is called", rows, {"a backward is found by its name": told})
