"""What the check of repeatability finds, that it alone finds it, and what it leaves alone."""

import random
from typing import Any

import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import gradwright as gw
from gradwright.checking.checks.repeatable import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def findings(subject, *args):
    return [answer for answer in CHECK.run(pose(subject, args)) if isinstance(answer, Finding)]


def checks_that_find_something(subject, *args):
    return {found.check for found in gw.check(subject, *args).findings}


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent * ctx.saved_tensors[0] ** 2


# --- state -----------------------------------------------------------------------------------------------------------


class Drifts(Cubed):
    calls = 0

    @staticmethod
    def backward(ctx, cotangent):
        Drifts.calls += 1
        return Cubed.backward(ctx, cotangent) * (1 + 0.01 * Drifts.calls)


class Alternates(Cubed):
    calls = 0

    @staticmethod
    def backward(ctx, cotangent):
        Alternates.calls += 1
        return Cubed.backward(ctx, cotangent) * (1 + Alternates.calls % 2)


class KeepsTheLatestCall(torch.autograd.Function):
    x: Any

    @staticmethod
    def forward(ctx, x):
        KeepsTheLatestCall.x = x
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent * KeepsTheLatestCall.x**2


class UsesUpTheLatestCall(torch.autograd.Function):
    x: Any

    @staticmethod
    def forward(ctx, x):
        UsesUpTheLatestCall.x = x
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        x, UsesUpTheLatestCall.x = UsesUpTheLatestCall.x, None
        return 3 * cotangent * x**2


class AddsUpOnCtx(Cubed):
    @staticmethod
    def backward(ctx, cotangent):
        ctx.seen = getattr(ctx, "seen", 0) + 1
        return ctx.seen * Cubed.backward(ctx, cotangent)


class FreesWhatItKept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x.detach().clone()
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        kept, ctx.kept = ctx.kept, None
        return 3 * cotangent * kept**2


class DifferentiatesInside(torch.autograd.Function):
    """Through a graph of its own, which its first backward frees."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.inner = x.detach().requires_grad_()
            ctx.outer = ctx.inner.sin() ** 3
        return ctx.outer.detach()

    @staticmethod
    def backward(ctx, cotangent):
        return torch.autograd.grad(ctx.outer, ctx.inner, cotangent)[0]


# --- random numbers --------------------------------------------------------------------------------------------------


class DrawsItsMaskAgain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * (torch.rand_like(x) < 0.5) * 2

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * (torch.rand_like(cotangent) < 0.5) * 2


class RecomputesWithoutTheState(torch.autograd.Function):
    """As ``checkpoint`` was written by hand in guided-diffusion#167."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.dropout(x.sin(), 0.5, True)

    @staticmethod
    def backward(ctx, cotangent):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = torch.dropout(x.sin(), 0.5, True)
        return torch.autograd.grad(y, x, cotangent)[0]


class AddsNoise(Cubed):
    @staticmethod
    def backward(ctx, cotangent):
        return Cubed.backward(ctx, cotangent) + 0.1 * torch.randn_like(cotangent)


class DrawsFromItsOwnGenerator(Cubed):
    generator = random.Random(0)

    @staticmethod
    def backward(ctx, cotangent):
        return Cubed.backward(ctx, cotangent) * DrawsFromItsOwnGenerator.generator.uniform(0.5, 1.5)


SPOILED = {
    AddsUpOnCtx: "state kept between calls",
    KeepsTheLatestCall: "state kept between calls",
    UsesUpTheLatestCall: "state kept between calls",
    FreesWhatItKept: "state kept between calls",
    DifferentiatesInside: "state kept between calls",
    Drifts: "state kept between calls",
    Alternates: "state kept between calls",
    DrawsItsMaskAgain: "random state",
    RecomputesWithoutTheState: "random state",
    AddsNoise: "nondeterminism",
    DrawsFromItsOwnGenerator: "nondeterminism",
}


@pytest.mark.parametrize(("spoiled", "cause"), SPOILED.items())
def test_a_gradient_that_does_not_come_again_is_found_with_its_cause(spoiled, cause):
    (found,) = findings(spoiled, draw(4, 5))
    assert (found.code, found.cause) == ("GW107", cause)
    assert found.why and found.do


@pytest.mark.parametrize("spoiled", [AddsUpOnCtx, FreesWhatItKept, KeepsTheLatestCall, UsesUpTheLatestCall])
def test_only_this_check_sees_what_a_single_call_does_not_show(spoiled):
    assert checks_that_find_something(spoiled, draw(4, 5)) == {"repeatable"}


def test_a_backward_that_only_raises_the_second_time_is_a_warning():
    (found,) = findings(FreesWhatItKept, draw(4))
    assert found.severity == "warning"
    assert "retain_graph" in found.message
    assert "NoneType" in found.why


def test_the_gradients_of_calls_in_a_row_are_shown():
    (found,) = findings(Drifts, draw(4))
    series = found.evidence["series"]
    assert len(series) == 7
    assert found.evidence["returned"] in series


def test_a_callable_around_it_is_checked_too():
    assert findings(lambda x: AddsUpOnCtx.apply(x).sin(), draw(4))[0].cause == "state kept between calls"
    assert findings(
        lambda x: checkpoint(torch.dropout, x, 0.5, True, use_reentrant=False, preserve_rng_state=False), draw(4)
    )


# --- right, though it looks suspicious -------------------------------------------------------------------------------


class SavesItsMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        mask = (torch.rand_like(x) < 0.5) * 2
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


class RestoresTheState(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return torch.dropout(x.sin(), 0.5, True)

    @staticmethod
    def backward(ctx, cotangent):
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = torch.dropout(x.sin(), 0.5, True)
        return torch.autograd.grad(y, x, cotangent)[0]


class KeepsAStack(torch.autograd.Function):
    """On the class, and yet right in ``f(f(x))``; its graph can be used again, as it pushes back what it took."""

    stack: list[torch.Tensor] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        KeepsAStack.stack.append(x.detach().clone())
        ctx.at = len(KeepsAStack.stack) - 1
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent * KeepsAStack.stack[ctx.at] ** 2


class CountsForTheLog(Cubed):
    calls = 0

    @staticmethod
    def backward(ctx, cotangent):
        CountsForTheLog.calls += 1
        torch.rand(3)
        return Cubed.backward(ctx, cotangent)


class RoundsAsAtomicsDo(Cubed):
    generator = torch.Generator().manual_seed(0)

    @staticmethod
    def backward(ctx, cotangent):
        jitter = torch.rand(cotangent.shape, generator=RoundsAsAtomicsDo.generator, dtype=cotangent.dtype)
        return Cubed.backward(ctx, cotangent) * (1 + 1e-14 * jitter)


class WritesIntoWhatItSaved(Cubed):
    """A mutation, which is another check's finding."""

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent * ctx.saved_tensors[0].data.square_()


@pytest.mark.parametrize(
    "right",
    [Cubed, SavesItsMask, RestoresTheState, KeepsAStack, CountsForTheLog, RoundsAsAtomicsDo, WritesIntoWhatItSaved],
)
@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (0,)])
def test_what_comes_again_is_left_alone(right, shape):
    assert not findings(right, draw(*shape))


@pytest.mark.parametrize("module", [torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), torch.nn.RReLU()])
def test_modules_with_buffers_and_masks_are_left_alone(module):
    assert not findings(module, draw(4, 3, dtype=torch.float32))


def test_a_checkpoint_is_left_alone():
    assert not findings(lambda x: checkpoint(torch.dropout, x, 0.5, True, use_reentrant=False), draw(4))


def test_the_callers_random_state_stays_as_it_is():
    states = torch.get_rng_state(), random.getstate()
    findings(DrawsItsMaskAgain, draw(4))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
