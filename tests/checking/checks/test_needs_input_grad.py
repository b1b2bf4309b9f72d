"""What the check of needs_input_grad finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.needs_input_grad import CHECK, MOST
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


def gated(backward, forward=None, name="Gated"):
    """x * sin(w) + b, with this backward."""

    def run(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x * w.sin() + b

    methods = {"forward": staticmethod(forward or run), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), methods)


def right(ctx, cotangent):
    x, w = ctx.saved_tensors
    needs = ctx.needs_input_grad
    return (
        cotangent * w.sin() if needs[0] else None,
        cotangent * x * w.cos() if needs[1] else None,
        cotangent.clone() if needs[2] else None,
    )


def reads_the_wrong_position(ctx, cotangent):
    x, w = ctx.saved_tensors
    needs = ctx.needs_input_grad
    return (
        cotangent * w.sin() if needs[1] else None,
        cotangent * x * w.cos() if needs[0] else None,
        cotangent.clone() if needs[2] else None,
    )


def raises_where_nobody_asked(ctx, cotangent):
    x, w = ctx.saved_tensors
    gradient = cotangent * x * w.cos() if ctx.needs_input_grad[1] else None
    return cotangent * w.sin(), gradient, cotangent * gradient.new_ones(())


def all_or_nothing(ctx, cotangent):
    return right(ctx, cotangent) if all(ctx.needs_input_grad) else (None, None, None)


def moves_up(ctx, cotangent):
    """Leaves out the ``None`` in front, and pads at the end."""
    found = [gradient for gradient in right(ctx, cotangent) if gradient is not None]
    return (*found, *[None] * (3 - len(found)))


def saves_only_for_w(ctx, x, w, b):
    ctx.save_for_backward(x, w if w.requires_grad else None)
    return x * w.sin() + b


ARGS = (draw(3, 4), draw(3, 4, seed=1), draw(3, 4, seed=2))


@pytest.mark.parametrize("backward", [reads_the_wrong_position, raises_where_nobody_asked, all_or_nothing, moves_up])
def test_only_this_check_sees_a_gate_that_is_wrong_for_some_choice_of_inputs(backward):
    assert checks_that_find_something(gated(backward), *ARGS) == {"needs_input_grad"}


def test_a_gradient_that_is_missing_is_named():
    for found in findings(gated(reads_the_wrong_position), *ARGS):
        assert (found.code, found.cause) == ("GW210", "needs_input_grad")
        assert found.evidence["returned"] == 0
    assert {found.input for found in findings(gated(reads_the_wrong_position), *ARGS)} == {"x", "w"}


def test_a_raise_is_told_with_the_choice_of_inputs():
    found = findings(gated(raises_where_nobody_asked), *ARGS)[0]
    assert "x alone" in found.message
    assert "NoneType" in found.why


def test_what_is_saved_only_for_another_input_is_found():
    found = findings(gated(right, saves_only_for_w), *ARGS)
    assert [item.input for item in found] == ["x"]


def test_leaving_one_out_finds_what_each_alone_does_not():
    def pairs(ctx, cotangent):
        gradients = right(ctx, cotangent)
        return gradients if sum(ctx.needs_input_grad) != 2 else tuple(g if g is None else 2 * g for g in gradients)

    (found, *_) = findings(gated(pairs), *ARGS)
    assert "all but x" in found.message


def refuses(ctx, cotangent):
    if not ctx.needs_input_grad[0]:
        raise NotImplementedError("only together with x")
    return right(ctx, cotangent)


def refuses_in_forward(ctx, x, w, b):
    if not x.requires_grad:
        raise ValueError("x has to require grad")
    ctx.save_for_backward(x, w)
    return x * w.sin() + b


@pytest.mark.parametrize("subject", [gated(refuses), gated(right, refuses_in_forward)])
def test_to_refuse_a_choice_and_say_so_is_honest(subject):
    found = answers(subject, *ARGS)
    assert found
    assert all(isinstance(answer, NotChecked) for answer in found)


class CountsItsCalls(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, cotangent):
        CountsItsCalls.calls += 1
        return cotangent * CountsItsCalls.calls, cotangent


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        ctx.mark_dirty(x)
        return x.mul_(w)

    @staticmethod
    def backward(ctx, cotangent):
        raise AssertionError


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.mark_dirty(x)
        return x.add_(w)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent


class NoGradientOfItsTarget(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return (x - target.round()).square().sum()

    @staticmethod
    def backward(ctx, cotangent):
        x, target = ctx.saved_tensors
        return 2 * cotangent * (x - target.round()), None


@pytest.mark.parametrize("subject", [CountsItsCalls, AddInPlace, NoGradientOfItsTarget, torch.mul, torch.atan2])
def test_what_gives_each_input_its_own_gradient_is_left_alone(subject):
    assert not answers(subject, draw(3), draw(3, seed=1))


@pytest.mark.parametrize("subject", [gated(right), gated(lambda ctx, g: right(ctx, g)[:3])])
def test_a_right_gate_is_left_alone(subject):
    assert not answers(subject, *ARGS)


def test_outputs_that_do_not_depend_on_the_input_alone_are_no_hindrance():
    assert not answers(lambda x, w: (x.sin(), w.cos()), draw(3), draw(3, seed=1))


def test_a_callable_around_a_function_is_checked_too():
    wrong = gated(reads_the_wrong_position)
    assert findings(lambda x, w, b: wrong.apply(2 * x, w, b).sum(), *ARGS)


def test_parameters_of_a_module_are_asked_for_one_by_one():
    wrong = gated(reads_the_wrong_position)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(draw(3, 4))

        def forward(self, x):
            return wrong.apply(x, self.weight, x)

    assert {found.input for found in findings(Layer(), draw(3, 4))} == {"x", "weight"}
    assert not answers(torch.nn.Linear(4, 2).double(), draw(3, 4))


def test_more_choices_than_there_is_time_for_are_said():
    def many(*tensors):
        return sum(tensor.sin() for tensor in tensors)

    (line,) = answers(many, *(draw(2) for _ in range(MOST + 3)))
    assert isinstance(line, NotChecked)
    assert "3 of" in line.why
