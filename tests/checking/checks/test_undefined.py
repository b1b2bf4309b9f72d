"""What the check of undefined cotangents finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch
from torch.autograd.function import once_differentiable

import gradwright as gw
from gradwright.checking.checks.undefined import CHECK, MOST
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args):
    return list(CHECK.run(pose(subject, args)))


def findings(subject, *args):
    return [answer for answer in answers(subject, *args) if isinstance(answer, Finding)]


def checks_that_find_something(subject, *args):
    return {found.check for found in gw.check(subject, *args).findings}


def pair(backward, materialize=False, name="Pair"):
    """(sin x, x²) with this backward."""

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        ctx.save_for_backward(x)
        return x.sin(), x**2

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), methods)


def multiplies(ctx, one, two):
    (x,) = ctx.saved_tensors
    return one * x.cos() + 2 * two * x


def gives_up(ctx, one, two):
    return multiplies(ctx, one, two) if one is not None and two is not None else None


def takes_ones_for_none(ctx, one, two):
    (x,) = ctx.saved_tensors
    one, two = (torch.ones_like(x) if g is None else g for g in (one, two))
    return one * x.cos() + 2 * two * x


def skips(ctx, one, two):
    (x,) = ctx.saved_tensors
    terms = [g * slope for g, slope in ((one, x.cos()), (two, 2 * x)) if g is not None]
    return sum(terms) if terms else None


@pytest.mark.parametrize("backward", [multiplies, gives_up, takes_ones_for_none])
def test_only_this_check_sees_what_is_done_with_none(backward):
    assert checks_that_find_something(pair(backward), draw(3, 4)) == {"undefined cotangents"}


def test_a_raise_on_none_is_told_with_the_output_that_is_used():
    found = findings(pair(multiplies), draw(3))[0]
    assert (found.code, found.cause, found.severity) == ("GW211", "undefined cotangent", "error")
    assert "NoneType" in found.why
    assert found.evidence["output"] == 0


def test_a_gradient_that_is_dropped_is_told_with_its_numbers():
    found = findings(pair(gives_up), draw(3))[0]
    assert found.input == "x"
    assert found.evidence["returned"] == 0


def test_a_single_output_may_have_no_cotangent_either():
    class Alone(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return 2 * x

        @staticmethod
        def backward(ctx, cotangent):
            return 2 * cotangent

    (found,) = findings(Alone, draw(3))
    assert found.severity == "warning"
    assert "NoneType" in found.why


def test_a_callable_around_it_is_checked_too():
    wrong = pair(multiplies)
    assert findings(lambda x: [y.sin() for y in wrong.apply(x)], draw(3))


# --- right, though it looks suspicious -------------------------------------------------------------------------------


class MaxAndArgmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(-1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent, _):
        (indices,) = ctx.saved_tensors
        return cotangent.new_zeros(ctx.shape).scatter_(-1, indices.unsqueeze(-1), cotangent.unsqueeze(-1))


class NeedsBoth(torch.autograd.Function):
    """Raises for zeros as well: what it says has nothing to do with undefined cotangents."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, one, two):
        if not (bool(one.any()) and bool(two.any())):
            raise ValueError("both, please")
        return 2 * one + 3 * two


class CountsItsCalls(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, one, two):
        CountsItsCalls.calls += 1
        return CountsItsCalls.calls * (2 * one + 3 * two)


RIGHT = [
    pair(skips),
    pair(skips, materialize=True),
    pair(multiplies, materialize=True),
    MaxAndArgmax,
    NeedsBoth,
    CountsItsCalls,
]


@pytest.mark.parametrize("right", RIGHT)
def test_what_takes_none_for_zeros_is_left_alone(right):
    assert not findings(right, draw(3, 4))


@pytest.mark.parametrize(
    "subject", [torch.linalg.qr, torch.linalg.eigh, lambda x: torch.unbind(x), torch.sin, torch.aminmax]
)
def test_torch_is_left_alone(subject):
    assert not findings(subject, draw(4, 4))


def test_faults_of_torch_itself_are_no_findings():
    def normed(x):
        return torch.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)

    left = [answer.why for answer in answers(normed, draw(2, 4, 3)) if isinstance(answer, NotChecked)]
    assert not findings(normed, draw(2, 4, 3))
    assert [why for why in left if "torch's own" in why] or _takes_undefined(normed, draw(2, 4, 3))


def _takes_undefined(function, *inputs):
    """Whether torch's own gradient of the first output is the same without cotangents of the others: since 2.14."""
    x = inputs[0].detach().requires_grad_()
    first, *others = function(x)
    zeros = [torch.zeros_like(other) for other in others]
    (alone,) = torch.autograd.grad(first, x, torch.ones_like(first), retain_graph=True)
    (beside,) = torch.autograd.grad([first, *others], x, [torch.ones_like(first), *zeros])
    return torch.equal(alone, beside)


def test_more_outputs_than_there_is_time_for_are_said():
    (line,) = answers(lambda x: x.unbind(), draw(MOST + 2, 3))
    assert isinstance(line, NotChecked)
    assert "2 of" in line.why
