"""What the second-order check finds, that it alone finds it, and what it leaves alone."""

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable

import gradwright as gw
from gradwright.checking.checks.second_order import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args):
    return list(CHECK.run(pose(subject, args)))


def findings(subject, *args):
    return [answer for answer in answers(subject, *args) if isinstance(answer, Finding)]


class Sine(torch.autograd.Function):
    """Right, to any order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * x.cos()


# --- what it finds: each of these has a right first derivative -------------------------------------------------------


class KeepsAnIntermediate(Sine):
    @staticmethod
    def forward(ctx, x):
        ctx.cosine = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.cosine


class SavesAnIntermediate(Sine):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


class Detaches(Sine):
    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0].detach().cos()


class DetachesItsCotangent(Sine):
    @staticmethod
    def backward(ctx, cotangent):
        return cotangent.detach() * ctx.saved_tensors[0].cos()


class WrongCosine(Sine):
    """cos, whose own backward has the wrong sign: d cos = + sin."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0].sin()


class CallsAHelperThatIsWrong(Sine):
    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * WrongCosine.apply(ctx.saved_tensors[0])


@pytest.mark.parametrize(
    ("function", "by"),
    [
        (KeepsAnIntermediate, "x"),
        (SavesAnIntermediate, "x"),
        (Detaches, "x"),
        (DetachesItsCotangent, "the cotangent"),
        (CallsAHelperThatIsWrong, "x"),
    ],
)
def test_a_second_derivative_that_is_silently_wrong_is_found(function, by):
    (found,) = findings(function, draw(5))
    assert (found.code, found.cause, found.severity) == ("GW106", "second order", "error")
    assert found.evidence["with_respect_to"] == by
    assert found.input == ("x" if by == "x" else "")
    assert abs(found.evidence["returned"] - found.evidence["expected"]) > 1e-3


class InNumPy(Sine):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(np.cos(x.detach().numpy()) * cotangent.detach().numpy())


class UnderNoGrad(Sine):
    @staticmethod
    def backward(ctx, cotangent):
        with torch.no_grad():
            return cotangent * ctx.saved_tensors[0].cos()


@pytest.mark.parametrize("function", [InNumPy, UnderNoGrad])
def test_a_gradient_out_of_the_graph_is_a_warning_since_it_is_silent_only_in_a_sum(function):
    (found,) = findings(function, draw(5))
    assert found.severity == "warning" and not found.evidence["connected"]


@pytest.mark.parametrize("function", [KeepsAnIntermediate, CallsAHelperThatIsWrong, InNumPy])
def test_only_this_check_finds_it(function):
    assert {found.check for found in gw.check(function, draw(5)).findings} == {CHECK.title}


def test_a_function_inside_a_callable_or_a_module_is_judged():
    assert findings(lambda x: KeepsAnIntermediate.apply(2 * x).sum(), draw(5))

    class Layer(torch.nn.Linear):
        def forward(self, x):
            return KeepsAnIntermediate.apply(super().forward(x))

    assert findings(Layer(3, 2), draw(4, 3, dtype=torch.float32))


def test_float32_is_enough():
    class Single(KeepsAnIntermediate):
        @staticmethod
        def forward(ctx, x):
            assert x.dtype is torch.float32
            return KeepsAnIntermediate.forward(ctx, x)

    assert findings(Single, draw(5, dtype=torch.float32))


# --- what it leaves alone --------------------------------------------------------------------------------------------


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        return x * ctx.mask

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.mask


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent


class Exp(torch.autograd.Function):
    """Saves its output, through which autograd sees."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class RoundedInBackward(Sine):
    """Its backward calls a surrogate: a second derivative that is chosen, where the true one is zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.detach().round()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * Rounded.apply(ctx.saved_tensors[0])


class Halved(Sine):
    """A wrong gradient (check 1's), rightly differentiated."""

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0].cos() / 2


class Conjugated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 1j

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * (2j * ctx.saved_tensors[0]).conj()


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


@pytest.mark.parametrize("function", [Sine, Tripled, Exp, Rounded, RoundedInBackward, Halved, InPlace])
def test_a_right_second_derivative_is_silent(function):
    assert answers(function, draw(5)) == []


def test_a_complex_one_too():
    assert answers(Conjugated, draw(4, dtype=torch.complex128)) == []


@pytest.mark.parametrize("x", [draw(5), torch.zeros(4, dtype=torch.float64), torch.tensor([-1.0, 0.0, 2.0]).double()])
def test_a_kink_is_no_second_derivative(x):
    assert answers(Relu, x) == []


def test_a_function_whose_second_derivative_is_linear_in_a_mask_is_right():
    assert answers(torch.nn.ReLU(), draw(5)) == []


@pytest.mark.parametrize(
    ("subject", "x"),
    [
        (lambda x: Sine.apply(x) * x.detach(), draw(4)),
        (lambda x: Sine.apply(x) + torch.nn.functional.softmax(x - x.max().detach(), 0), draw(4)),
    ],
)
def test_what_a_callable_holds_back_on_purpose_is_no_fault(subject, x):
    assert findings(subject, x) == []


class OnceOnly(KeepsAnIntermediate):
    backward = staticmethod(once_differentiable(KeepsAnIntermediate.backward))


class RefusesTwice(KeepsAnIntermediate):
    @staticmethod
    def backward(ctx, cotangent):
        if torch.is_grad_enabled():
            raise NotImplementedError("no second derivative. Sorry.")
        return cotangent * ctx.cosine


@pytest.mark.parametrize(
    ("function", "said"), [(OnceOnly, "once_differentiable"), (RefusesTwice, "no second derivative")]
)
def test_what_raises_is_honest_and_told(function, said):
    (line,) = answers(function, draw(5))
    assert isinstance(line, NotChecked)
    assert "double backward raises" in line.why and said in line.why and "Sorry" not in line.why


@pytest.mark.parametrize("seed", range(5))
def test_a_sine_that_swings_within_a_step_is_not_judged(seed):
    assert findings(lambda x: Sine.apply(x * 1e17), draw(4, seed=seed)) == []


def test_nothing_is_left_in_a_parameter_that_is_closed_over():
    weight = torch.nn.Parameter(draw(3))
    assert findings(lambda x: Sine.apply(x * weight), draw(3)) == []
    assert weight.grad is None
