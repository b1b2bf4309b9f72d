"""What two calls of a Function share is found where they are nested, and nowhere else."""

import pytest
import torch

from gradwright.checking import judge_values

X = torch.linspace(-1.5, 2.0, 6).reshape(2, 3)
KEPT = {}


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return torch.tanh(x) * scale

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.scale * (1 - ctx.saved_tensors[0].tanh() ** 2), None


class OnTheClass(Tanh):
    x: torch.Tensor

    @staticmethod
    def forward(ctx, x, scale):
        OnTheClass.x = x
        return Tanh.forward(ctx, x, scale)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.scale * (1 - OnTheClass.x.tanh() ** 2), None


class NumberInAGlobal(Tanh):
    @staticmethod
    def forward(ctx, x, scale):
        KEPT["scale"] = scale
        return Tanh.forward(ctx, x, scale)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * KEPT["scale"] * (1 - ctx.saved_tensors[0].tanh() ** 2), None


class Stack(Tanh):
    @staticmethod
    def forward(ctx, x, scale):
        KEPT.setdefault("stack", []).append(x)
        return Tanh.forward(ctx, x, scale)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.scale * (1 - KEPT["stack"].pop().tanh() ** 2), None


class Counter(Tanh):
    calls = 0

    @staticmethod
    def forward(ctx, x, scale):
        Counter.calls += 1
        return Tanh.forward(ctx, x, scale)


def verdict(function, nested):
    return judge_values(function, [X, 0.7], [True, False], nested=nested)[0]


@pytest.mark.parametrize("function", [OnTheClass, NumberInAGlobal])
def test_what_is_kept_outside_of_ctx_is_another_calls(function):
    found = verdict(function, nested=True)
    assert (found.verdict, found.cause) == ("wrong", "state kept between calls")
    assert verdict(function, nested=False).verdict == "right"


@pytest.mark.parametrize("function", [Tanh, Stack, Counter])
def test_a_stack_a_counter_and_ctx_are_right(function):
    assert verdict(function, nested=True).verdict == "right"
