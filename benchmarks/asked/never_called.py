"""Why is my backward never called? How often each way of writing ``my_square_backward`` comes to be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from asked.answer import TUTORIAL, Answer, claim
from asked.measuring import in_turn, middle, ratio, shown

STEPS = 10


class Counted:
    """A backward that knows how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, grad_output: Tensor, x: Tensor) -> Tensor:
        self.calls += 1
        return 2 * x * grad_output


def ways_of(backward: Counted) -> dict[str, Callable[[Tensor], Tensor]]:
    def my_square(x: Tensor) -> Tensor:
        return x * x

    def with_attribute(x: Tensor) -> Tensor:
        return x * x

    with_attribute.backward = backward  # type: ignore[attr-defined]

    class MySquare(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return backward(grad_output, *ctx.saved_tensors)

    def hand(grad_output: Tensor, x: Tensor) -> Tensor:
        return backward(grad_output, x)

    return {
        "two functions with matching names": my_square,
        "my_square.backward = my_square_backward": with_attribute,
        "autograd.Function": MySquare.apply,
        "gw.custom_gradient(my_square, my_square_backward)": gw.custom_gradient(my_square, hand),
    }


def measure(rounds: int, quick: bool) -> Answer:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(10, 5), torch.randn(32, 10)
    backward = Counted()

    def step(square: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        return lambda: square(layer(x)).sum().backward()

    calls = {}
    jobs = {name: step(square) for name, square in ways_of(backward).items()}
    for name, job in jobs.items():
        backward.calls = 0
        for _ in range(STEPS):
            job()
        calls[name] = backward.calls
    took = in_turn(jobs, rounds)
    plain = took["two functions with matching names"]
    rows = {
        name: {
            f"calls of the backward in {STEPS} steps": calls[name],
            "us a step": shown(middle(took[name]) * 1e6),
            "times plain autograd": f"{ratio(took[name], plain):.2f}",
        }
        for name in jobs
    }
    printed = calls["two functions with matching names"]
    told = claim(TUTORIAL, printed == STEPS, f"{printed} calls in {STEPS} steps")
    return Answer("Which backward is called", rows, {"PyTorch will use your 'my_square_backward' function": told})
