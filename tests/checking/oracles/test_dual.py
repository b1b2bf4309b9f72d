"""The forward on dual numbers: exact where a forward works in place, silent where torch does not see it, arbitrated."""

import numpy as np
import pytest
import torch

from gradwright.checking import judge_values
from gradwright.checking.oracles.dual import dual_slope
from gradwright.checking.oracles.reverse import plain_gradient
from gradwright.checking.trial import settle
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, DUAL


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def spoiled(function, change):
    """The same forward, the backward's first gradient changed."""

    def backward(ctx, *cotangents):
        found = function.backward(ctx, *cotangents)
        return (change(found[0]), *found[1:]) if isinstance(found, tuple) else change(found)

    return type(f"Spoiled{function.__name__}", (function,), {"backward": staticmethod(backward)})


class Gate(torch.autograd.Function):
    """sigmoid(x) · tanh(x), in two buffers that are written over and over: reverse mode raises."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        out = x.clone().sigmoid_()
        x.tanh_()
        out.mul_(x)
        x.zero_()
        return out

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        s, t = x.sigmoid(), x.tanh()
        return cotangent * (s * (1 - s) * t + s * (1 - t**2))


class Recurrence(torch.autograd.Function):
    """yᵢ = 1 + tanh yᵢ of yᵢ = wᵢ xᵢ (1 + yᵢ₋₁), in place, with a second input."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        x.mul_(w)
        for i in range(1, len(x)):
            x[i] *= 1 + x[i - 1]
        ctx.y = x.clone()
        return x.tanh_().add_(1.0)

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        scaled, y = x * w, ctx.y
        adjoint, for_scaled = cotangent * (1 - y.tanh() ** 2), torch.zeros_like(x)
        for i in range(len(x) - 1, 0, -1):
            for_scaled[i] = adjoint[i] * (1 + y[i - 1])
            adjoint[i - 1] += adjoint[i] * scaled[i]
        for_scaled[0] = adjoint[0]
        return for_scaled * w, for_scaled * x


class ComplexInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z.clone())
        z.mul_(z.clone())
        z.exp_()
        z.mul_(2j)
        return z.mul_(1.0)

    @staticmethod
    def backward(ctx, cotangent):
        (z,) = ctx.saved_tensors
        return cotangent * (2j * 2 * z * (z * z).exp()).conj()


class InPlaceBisection(torch.autograd.Function):
    """y³ + y = x by a search in buffers: reverse mode raises, dual numbers see slopes that mean nothing."""

    @staticmethod
    def forward(ctx, x):
        low, high = -x.abs() - 1, x.abs() + 1
        middle = torch.empty_like(x)
        for _ in range(70):
            middle.copy_(low).add_(high).div_(2)
            above = middle**3 + middle > x
            high.copy_(torch.where(above, middle, high))
            low.copy_(torch.where(above, low, middle))
        ctx.save_for_backward(middle.clone())
        return middle.pow_(1.0).exp_()

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        return cotangent * y.exp() / (3 * y**2 + 1)


class Bisection(InPlaceBisection):
    """The same without buffers: reverse mode answers, and is wrong."""

    @staticmethod
    def forward(ctx, x):
        low, high = -x.abs() - 1, x.abs() + 1
        for _ in range(70):
            middle = (low + high) / 2
            above = middle**3 + middle > x
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        y = (low + high) / 2
        ctx.save_for_backward(y)
        return y.exp()


IN_PLACE = {
    "gate": (Gate, draw(3, 4)),
    "recurrence": (Recurrence, draw(6), draw(6, seed=1)),
    "complex": (ComplexInPlace, draw(5, dtype=torch.complex128) / 2),
    "transposed": (Gate, draw(4, 3).t()),
}


def trial_of(subject, *args):
    return settle(subject, args, list(range(len(args))), seed=0, deadline=None)


def along(trial, index, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(trial.inputs[index].shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("case", IN_PLACE)
def test_where_reverse_mode_raises_dual_numbers_agree_with_the_backward_to_rounding(case):
    trial = trial_of(*IN_PLACE[case])
    assert plain_gradient(trial) is None
    for index in trial.wanted:
        direction = along(trial, index)
        truth = float(trial.gradient()[index] @ direction)
        assert dual_slope(trial, index, direction) == pytest.approx(truth, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", IN_PLACE)
def test_a_fault_of_one_part_in_a_hundred_million_is_seen(case):
    subject, *args = IN_PLACE[case]
    trial = trial_of(spoiled(subject, lambda gradient: (1 + 1e-8) * gradient), *args)
    direction = along(trial, 0)
    ours, theirs = float(trial.gradient()[0] @ direction), dual_slope(trial, 0, direction)
    assert abs(ours - theirs) == pytest.approx(1e-8 * abs(ours), rel=1e-3)


@pytest.mark.parametrize("case", IN_PLACE)
def test_forwards_that_work_in_place_are_judged_by_dual_numbers_and_differences(case):
    subject, *args = IN_PLACE[case]
    for verdict in judge_values(subject, args, [True] * len(args)):
        assert (verdict.verdict, verdict.oracles) == ("right", (DUAL, DIFFERENCES))


FAULTS = {
    "half": lambda gradient: gradient / 2,
    "sign": lambda gradient: -gradient,
    "one in a thousand": lambda gradient: 1.001 * gradient,
    "conjugate or tilt": lambda gradient: gradient.conj() if gradient.is_complex() else gradient + 0.1,
    "one entry": lambda gradient: gradient * (gradient.abs() != gradient.abs().max()),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("case", IN_PLACE)
def test_faults_planted_in_in_place_forwards_are_rejected(case, fault):
    subject, *args = IN_PLACE[case]
    first, *others = judge_values(spoiled(subject, FAULTS[fault]), args, [True] * len(args))
    assert (first.verdict, first.oracles) == ("wrong", (DUAL, DIFFERENCES))
    assert {other.verdict for other in others} <= {"right"}


@pytest.mark.parametrize("solver", [InPlaceBisection, Bisection])
def test_a_solver_whose_own_loop_differentiates_wrongly_is_right_by_differences(solver):
    x = draw(6)
    (verdict,) = judge_values(solver, [x], [True])
    assert (verdict.verdict, verdict.oracles) == ("right", (DIFFERENCES,))
    trial = trial_of(solver, x)
    direction = along(trial, 0)
    assert dual_slope(trial, 0, direction) != pytest.approx(float(trial.gradient()[0] @ direction), rel=1e-3)
    (verdict,) = judge_values(spoiled(solver, lambda gradient: gradient / 2), [x], [True])
    assert (verdict.verdict, AUTOGRAD in verdict.oracles, DUAL in verdict.oracles) == ("wrong", False, False)


def test_a_forward_that_leaves_torch_has_no_answer():
    class ThroughNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(np.tanh(x.detach().numpy()))

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * (1 - ctx.saved_tensors[0].tanh() ** 2)

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ThroughNumpy.apply(x).mul_(2)

        @staticmethod
        def backward(ctx, cotangent):
            return 2 * cotangent * (1 - ctx.saved_tensors[0].tanh() ** 2)

    for subject in (ThroughNumpy, Nested, torch.sin):
        trial = trial_of(subject, draw(4))
        assert dual_slope(trial, 0, along(trial, 0)) is None


def test_at_a_kink_dual_numbers_alone_say_right():
    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.clamp_(min=0)
            ctx.save_for_backward(x.clone())
            x.mul_(x.clone()).sqrt_().mul_(x)
            return x.copy_(ctx.to_save[0]).relu_()

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * (ctx.saved_tensors[0] > 0)

    trial = trial_of(Relu, draw(5))
    direction = along(trial, 0)
    assert dual_slope(trial, 0, direction) == pytest.approx(float(trial.gradient()[0] @ direction))


def test_nothing_of_the_callers_changes():
    x, state = draw(3, 4), torch.get_rng_state()
    before = x.clone()
    trial = trial_of(Gate, x)
    dual_slope(trial, 0, along(trial, 0))
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)
