"""Right gradients are called right, planted faults are rejected, and what can't be told is said not to be known."""

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.function import once_differentiable

from gradwright.checking import judge_values
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES
from gradwright.ground import clock

SHAPE = (3, 4)


def draw(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def function(forward, backward, name="Planted"):
    """A Function of the combined style. ``backward(cotangent, *args)`` is told the forward's own arguments."""

    def run(ctx, *args):
        ctx.args = args
        return forward(*args)

    def back(ctx, *cotangents):
        return backward(*cotangents, *ctx.args)

    return type(name, (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def verdicts(subject, *args, wanted=None, **options):
    wanted = [isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args] if wanted is None else wanted
    return judge_values(subject, args, wanted, **options)


def verdict(subject, *args, **options):
    (found,) = verdicts(subject, *args, **options)
    return found


# --- right -----------------------------------------------------------------------------------------------------------


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * (x > 0)


class ReluOneAtZero(Relu):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * (x >= 0)


class InPlaceExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


class CubeRootByBisection(torch.autograd.Function):
    """y³ + y = x. Autograd through the search sees nothing that is true."""

    @staticmethod
    def forward(ctx, x):
        low, high = -x.abs() - 1, x.abs() + 1
        for _ in range(70):
            middle = (low + high) / 2
            above = middle**3 + middle > x
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        y = (low + high) / 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        return cotangent / (3 * y**2 + 1)


class MaxAndArgmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        values, indices = x.max(dim)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape, ctx.dim = x.shape, dim
        return values, indices

    @staticmethod
    def backward(ctx, cotangent, _):
        (indices,) = ctx.saved_tensors
        gradient = cotangent.new_zeros(ctx.shape)
        return gradient.scatter_(ctx.dim, indices.unsqueeze(ctx.dim), cotangent.unsqueeze(ctx.dim)), None


class SineAndCosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), None, x.cos()

    @staticmethod
    def backward(ctx, for_sine, _, for_cosine):
        (x,) = ctx.saved_tensors
        return for_sine * x.cos() - for_cosine * x.sin()


class Affine(torch.autograd.Function):
    """setup_context style, a default, mixed arguments, needs_input_grad obeyed."""

    @staticmethod
    def forward(x, weight, bias, options=None, scale=2.0):
        return scale * (x @ weight.t()) + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _, _, ctx.scale = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        for_x = for_weight = for_bias = None
        if ctx.needs_input_grad[0]:
            for_x = ctx.scale * cotangent @ weight
        if ctx.needs_input_grad[1]:
            for_weight = ctx.scale * cotangent.t() @ x
        if ctx.needs_input_grad[2]:
            for_bias = cotangent.sum(0)
        return for_x, for_weight, for_bias, None, None


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        mask = (torch.rand_like(x) > p) / (1 - p)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0], None


class ThroughNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.tanh(x.detach().numpy()))

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2)


class SingleOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert x.dtype is torch.float32
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * 3 * ctx.saved_tensors[0] ** 2


class ElementLoop(torch.autograd.Function):
    """As tutorials write it: the result starts as ``torch.zeros(shape)`` of default dtype."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.zeros(x.shape)
        for i in range(x.shape[0]):
            out[i] = x[i] ** 2
        return out

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros(x.shape)
        for i in range(x.shape[0]):
            gradient[i] = 2 * x[i] * cotangent[i]
        return gradient


class Rerun(torch.autograd.Function):
    """Checkpointing as torchdiffeq's adjoint does it: the module holds the very Parameters that are also passed."""

    @staticmethod
    def forward(ctx, module, x, *parameters):
        ctx.module = module
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return module(x)

    @staticmethod
    def backward(ctx, cotangent):
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            found = torch.autograd.grad(ctx.module(x), (x, *parameters), cotangent)
        return None, *found


Matmul = function(lambda a, b: a @ b, lambda g, a, b: (g @ b.t(), a.t() @ g))
Broadcast = function(lambda x, b: x * b, lambda g, x, b: (g * b, (g * x).sum(0)))
Fourier = function(lambda x: torch.fft.fft(x), lambda g, x: (torch.fft.ifft(g) * x.shape[-1]).real)
ComplexSquare = function(lambda z: z * z, lambda g, z: g * 2 * z.conj())
Softmax = function(
    lambda x: x.softmax(-1),
    lambda g, x: x.softmax(-1) * (g - (g * x.softmax(-1)).sum(-1, keepdim=True)),
)
Identity = function(lambda x: x.view_as(x), lambda g, x: g)
TinyScale = function(lambda x: 1e-6 * x.sin(), lambda g, x: 1e-6 * g * x.cos())
ThroughSingle = function(lambda x: x.float().exp().to(x.dtype), lambda g, x: g * x.exp())
Huber = function(lambda x: torch.where(x.abs() < 1, x**2 / 2, x.abs() - 0.5), lambda g, x: g * x.clamp(-1, 1))
ConstantRows = function(lambda x: x.softmax(-1).sum(-1), lambda g, x: torch.zeros_like(x))


def medians_gradient(g, x):
    return torch.zeros_like(x).scatter_(-1, x.median(-1).indices.unsqueeze(-1), g.unsqueeze(-1))


ZEROS = torch.tensor([[0.0, 1.0, -1.0, 0.0], [2.0, 0.0, 0.0, -3.0]])
RIGHT = {
    "relu": (Relu, draw(*SHAPE)),
    "relu, exact zeros": (Relu, ZEROS),
    "relu, nothing but zeros": (Relu, torch.zeros(5)),
    "relu, one at zero": (ReluOneAtZero, ZEROS),
    "relu, large": (Relu, draw(200, 50)),
    "abs at zero": (function(lambda x: x.abs(), lambda g, x: g * x.sign()), ZEROS),
    "in place": (InPlaceExp, draw(*SHAPE)),
    "bisection": (CubeRootByBisection, draw(6)),
    "max and argmax": (MaxAndArgmax, draw(*SHAPE), 1),
    "median": (function(lambda x: x.median(-1).values, medians_gradient), draw(*SHAPE)),
    "relu in numpy, exact zeros": (
        function(lambda x: torch.from_numpy(np.maximum(x.numpy(force=True), 0)), lambda g, x: g * (x > 0)),
        ZEROS,
    ),
    "max with ties": (MaxAndArgmax, torch.ones(3, 4), 1),
    "several outputs": (SineAndCosine, draw(*SHAPE)),
    "affine": (Affine, draw(5, 3), draw(2, 3, seed=1), draw(2, seed=2), {"option": [1]}, 0.5),
    "affine, default left out": (Affine, draw(5, 3), draw(2, 3, seed=1), draw(2, seed=2)),
    "dropout": (Dropout, draw(*SHAPE), 0.4),
    "numpy": (ThroughNumpy, draw(*SHAPE)),
    "float32 only": (SingleOnly, draw(*SHAPE)),
    "element loop": (ElementLoop, draw(*SHAPE)),
    "matmul": (Matmul, draw(3, 4), draw(4, 2, seed=1)),
    "the same tensor twice": (Matmul, *[draw(3, 3)] * 2),
    "broadcast": (Broadcast, draw(*SHAPE), draw(4, seed=1)),
    "transposed input": (Softmax, draw(4, 3).t()),
    "expanded input": (Softmax, draw(1, 4).expand(3, 4)),
    "fourier": (Fourier, draw(8)),
    "complex": (ComplexSquare, draw(5, dtype=torch.complex64)),
    "identity": (Identity, draw(*SHAPE)),
    "tiny scale": (TinyScale, draw(*SHAPE)),
    "float32 inside": (ThroughSingle, draw(*SHAPE)),
    "huber": (Huber, 2 * draw(*SHAPE)),
    "a zero that is true": (ConstantRows, draw(*SHAPE)),
    "half": (Softmax, draw(*SHAPE).half()),
    "scalar": (function(lambda x: x**2, lambda g, x: 2 * g * x), torch.tensor(1.5)),
    "a callable": (torch.nn.functional.gelu, draw(*SHAPE)),
    "a module": (torch.nn.Linear(4, 2), draw(*SHAPE)),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_gradients_are_called_right(case):
    subject, *args = RIGHT[case]
    found = verdicts(subject, *args)
    complexes = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.is_complex()]
    found += verdicts(subject, *args, wanted=[True]) if complexes else ()
    assert found
    assert [(v.name, v.verdict, v.cause, v.reason) for v in found] == [(v.name, "right", "", "") for v in found]
    assert all(v.oracles and v.checks for v in found)


def test_parameters_that_a_module_holds_are_perturbed_inside_it():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    parameters = list(module.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    args = (module, draw(5, 3), *parameters)
    found = verdicts(Rerun, *args)
    assert [v.verdict for v in found] == ["right"] * 5
    assert [v.name for v in found] == ["x"] + [f"parameters[{i}]" for i in range(4)]
    assert all(torch.equal(old, new) and new.grad is None for old, new in zip(before, parameters, strict=True))
    detached = [parameter.detach() for parameter in parameters]
    assert [v.verdict for v in verdicts(Rerun, module, draw(5, 3), *detached)] == ["right"] * 5


def test_parameters_that_a_closure_holds_are_perturbed_inside_it():
    weight = torch.nn.Parameter(draw(3, 3))
    assert [v.verdict for v in verdicts(Rerun, lambda x: (x @ weight).sin(), draw(5, 3), weight)] == ["right"] * 2


# --- wrong -----------------------------------------------------------------------------------------------------------

NET = functools.partial(function, lambda x, w: x @ w)
SINE_TIMES = functools.partial(function, lambda x, w: x.sin() * w)
SQUARE = functools.partial(function, lambda x: x**2)


def leaky(slope):
    return lambda x: torch.where(x > 0, x**2, slope * x)


WRONG = {
    "absolute cotangent": (SQUARE(lambda g, x: 2 * x * g.abs()), "nonlinear in the cotangent", "x"),
    "clamped at zero": (SQUARE(lambda g, x: 2 * x * g.clamp(min=0)), "nonlinear in the cotangent", "x"),
    "clamped to one": (SQUARE(lambda g, x: 2 * x * g.clamp(-1, 1)), "nonlinear in the cotangent", "x"),
    "sign of the cotangent": (SQUARE(lambda g, x: 2 * x * g.sign()), "nonlinear in the cotangent", "x"),
    "no cotangent": (SQUARE(lambda g, x: 2 * x), "missing grad_output", "x"),
    "half of it": (SQUARE(lambda g, x: x * g), "constant factor", "x"),
    "0.05 % off": (SQUARE(lambda g, x: 2.001 * x * g), "constant factor", "x"),
    "minus": (SQUARE(lambda g, x: -2 * x * g), "sign", "x"),
    "nothing": (SQUARE(lambda g, x: None), "dropped term", "x"),
    "zeros": (SQUARE(lambda g, x: torch.zeros_like(x)), "dropped term", "x"),
    "one entry": (SQUARE(lambda g, x: 2 * x * g * (x != x.max())), "region", "x"),
    "power not lowered": (SQUARE(lambda g, x: 2 * x**2 * g), "formula", "x"),
    "zero of a tiny scale": (function(lambda x: 1e-6 * x.sin(), lambda g, x: 0 * g), "dropped term", "x"),
    "sum for mean": (function(lambda x: x.square().mean(), lambda g, x: g * 2 * x), "sum for mean", "x"),
    "mean for sum": (function(lambda x: x.square().sum(), lambda g, x: g * 2 * x / x.numel()), "sum for mean", "x"),
    "swapped inputs": (SINE_TIMES(lambda g, x, w: (g * x.sin(), g * w * x.cos())), "swapped inputs", "xw"),
    "transposed weight": (NET(lambda g, x, w: (g @ w, x.t() @ g)), "transpose", "x"),
    "transposed gradient": (NET(lambda g, x, w: (g @ w.t(), g.t() @ x)), "transpose", "w"),
    "second factor lost": (NET(lambda g, x, w: (g @ w.t(), None)), "dropped term", "w"),
    "half of the weight's": (NET(lambda g, x, w: (g @ w.t(), 0.5 * x.t() @ g)), "constant factor", "w"),
    "below zero": (function(leaky(0.1), lambda g, x: g * torch.where(x > 0, 2 * x, 0.2)), "region", "x"),
    "below zero, nothing": (function(leaky(0.1), lambda g, x: g * (x > 0) * 2 * x), "region", "x"),
    "sigmoid of a sigmoid": (
        function(torch.sigmoid, lambda g, x: g * x.sigmoid().sigmoid() * (1 - x.sigmoid())),
        "formula",
        "x",
    ),
    "softmax without its sum": (function(lambda x: x.softmax(-1), lambda g, x: g * x.softmax(-1)), "formula", "x"),
    "product rule, a term dropped": (function(lambda x: x * x.exp(), lambda g, x: g * x.exp()), "dropped term", "x"),
    "tanh without the square": (function(torch.tanh, lambda g, x: g * (1 - x.tanh())), "formula", "x"),
    "norm, not normalised": (function(lambda x: x.norm(), lambda g, x: g * x), "factor?", "x"),
    "gelu, tanh and erf mixed": (
        function(
            lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
            lambda g, x: g * (0.5 * (1 + torch.erf(x / 2**0.5)) + x * torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)),
        ),
        "formula",
        "x",
    ),
    "through numpy, half": (
        function(lambda x: torch.from_numpy(np.sin(x.detach().numpy())), lambda g, x: 0.5 * g * x.cos()),
        "constant factor",
        "x",
    ),
    "through numpy, a term": (
        function(lambda x: torch.from_numpy(np.sin(x.numpy(force=True))) * x.detach(), lambda g, x: g * x.cos()),
        "formula",
        "x",
    ),
    "bisection, half": (type("Half", (CubeRootByBisection,), {
        "backward": staticmethod(lambda ctx, g: 0.5 * CubeRootByBisection.backward(ctx, g))}), "constant factor", "x"),
    "relu of x below zero": (function(lambda x: x.relu(), lambda g, x: g * (x < 0)), "formula", "x"),
    "relu without mask": (function(lambda x: x.relu(), lambda g, x: g), "region", "x"),
    "dropout, mask drawn again": (
        function(lambda x: x * (torch.rand_like(x) > 0.5), lambda g, x: g * (torch.rand_like(x) > 0.5)),
        "nondeterminism",
        "x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", WRONG)
def test_planted_faults_are_rejected_and_named(case, seed):
    planted, cause, faulty = WRONG[case]
    args = [draw(4, 4, seed=seed), draw(4, 4, seed=seed + 1)][: 2 if "w" in faulty or "weight" in case else 1]
    found = verdicts(planted, *args, names=["x", "w"][: len(args)], seed=seed)
    assert {v.name: v.verdict for v in found} == {
        name: "wrong" if name in faulty else "right" for name in "xw"[: len(args)]
    }
    for v in found:
        if v.verdict == "wrong":
            assert v.cause == (cause if cause != "factor?" else v.cause)
            assert v.error > v.tolerance
            assert v.returned != v.expected
            assert len(v.at) == 2
            assert DIFFERENCES in v.oracles


def test_a_large_fault_is_placed_and_measured():
    planted = SQUARE(lambda g, x: 2 * x * g * torch.where(torch.arange(x.numel()).view_as(x) == 1234, 3, 1))
    found = verdict(planted, draw(50, 60))
    assert (found.verdict, found.at) == ("wrong", (1234 // 60, 1234 % 60))
    assert found.returned == pytest.approx(3 * found.expected)


def test_the_factor_is_what_was_returned_over_the_truth():
    assert verdict(SQUARE(lambda g, x: 3 * x * g), draw(4)).factor == pytest.approx(1.5)


def test_an_output_whose_cotangent_is_ignored_is_named_and_forgiven_where_it_is_not_used():
    pair = function(lambda x: (x.sin(), x.cos()), lambda g, h, x: g * x.cos())
    found = verdict(pair, draw(4))
    assert (found.verdict, found.cause) == ("wrong", "dropped term")
    assert found.reason == "the cotangent of output 1 is ignored"
    assert verdict(pair, draw(4), outputs=[True, False]).verdict == "right"


@settings(max_examples=8, deadline=None)
@given(st.floats(0.2, 5).filter(lambda c: abs(c - 1) > 1e-2), st.integers(0, 99), st.sampled_from([(1,), (7,), (2, 3)]))
def test_any_factor_is_found_in_any_shape(factor, seed, shape):
    found = verdict(function(torch.sin, lambda g, x: factor * g * x.cos()), draw(*shape, seed=seed))
    assert (found.verdict, found.cause) == ("wrong", "constant factor")
    assert found.factor == pytest.approx(factor, rel=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 99), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_any_shape_and_layout_of_a_right_product_is_right(seed, rows, columns, turned):
    a = draw(columns, rows, seed=seed).t() if turned else draw(rows, columns, seed=seed)
    assert {v.verdict for v in verdicts(Matmul, a, draw(columns, 2, seed=seed + 1))} == {"right"}


# --- surrogates ------------------------------------------------------------------------------------------------------

QUANTISED = functools.partial(function, lambda x, step=0.05: (x / step).round() * step)
SURROGATES = {
    "round": (function(torch.round, lambda g, x: g), "piecewise constant"),
    "floor": (function(torch.floor, lambda g, x: g), "piecewise constant"),
    "sign, clipped": (function(torch.sign, lambda g, x: g * (x.abs() < 1)), "piecewise constant"),
    "spike": (function(lambda x: (x > 0).to(x.dtype), lambda g, x: g / (1 + x.abs()) ** 2), "piecewise constant"),
    "spike, always float32": (
        function(lambda x: (x > 0).float(), lambda g, x: g / (1 + 25 * x.abs()) ** 2),
        "piecewise constant",
    ),
    "quantiser": (QUANTISED(lambda g, x: g), "piecewise constant"),
    "quantiser in numpy": (
        function(lambda x: torch.from_numpy(np.round(x.numpy(force=True) * 4) / 4), lambda g, x: g),
        "piecewise constant",
    ),
    "reversal": (function(lambda x: x.view_as(x), lambda g, x: -0.3 * g), "identity"),
    "scaled": (function(lambda x: x.clone(), lambda g, x: 2 * g), "identity"),
    "clipped": (function(lambda x: x.view_as(x), lambda g, x: g.clamp(-0.1, 0.1)), "identity"),
    "stopped": (function(lambda x: x.view_as(x), lambda g, x: None), "identity"),
    "flattened": (function(lambda x: x.reshape(-1), lambda g, x: -g.view_as(x)), "identity"),
}


@pytest.mark.parametrize("shape", [(4, 4), (40, 50)])
@pytest.mark.parametrize("case", SURROGATES)
def test_surrogates_are_told_from_errors(case, shape):
    subject, cause = SURROGATES[case]
    found = verdict(subject, draw(*shape))
    assert (found.verdict, found.cause) == ("surrogate", cause)


def test_a_step_size_learnt_through_rounding_is_a_surrogate():
    learnt = function(
        lambda x, s: (x / s).round() * s,
        lambda g, x, s: (g, (g * ((x / s).round() - x / s)).sum().view_as(s)),
    )
    assert {v.verdict for v in verdicts(learnt, draw(4, 4), torch.tensor([0.3]))} == {"surrogate"}


def test_a_wrong_relu_is_no_surrogate_on_a_one_sided_specimen():
    wrong = function(lambda x: x.relu(), lambda g, x: 0.5 * g)
    assert verdict(wrong, draw(4, 4).abs()).verdict == "wrong"
    assert verdict(wrong, -draw(4, 4).abs()).verdict == "wrong"


# --- unknown ---------------------------------------------------------------------------------------------------------

COUNTER = [0.0]


def counting(x):
    COUNTER[0] += 1
    return x * COUNTER[0]


def refuses(g, x):
    raise KeyError("no backward today")


WEIGHT = torch.nn.Parameter(draw(3, 3))
UNKNOWN = {
    "not a function": (function(counting, lambda g, x: g), "not a function of its inputs"),
    "nan": (function(lambda x: x / 0 * 0, lambda g, x: g), "NaN"),
    "backward raises": (SQUARE(refuses), "KeyError"),
    "too many gradients": (SQUARE(lambda g, x: (g, g)), "incorrect number of gradients"),
    "wrong shape": (SQUARE(lambda g, x: g.repeat(2, 1)), "invalid gradient"),
    "no gradient possible": (function(lambda x: x.argmax(), lambda g, x: g), "no output"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_cannot_be_told_is_unknown_with_its_reason(case):
    subject, reason = UNKNOWN[case]
    found = verdict(subject, draw(3, 3))
    assert found.verdict == "unknown"
    assert reason in found.reason


@pytest.mark.parametrize(
    ("arg", "reason"),
    [
        (torch.arange(3), "int64"),
        (torch.ones(0, 2), "empty"),
        (torch.tensor([1.0, math.nan]), "NaN"),
        (3, "not a tensor"),
    ],
)
def test_inputs_without_a_judgeable_gradient_are_unknown(arg, reason):
    found = verdict(SQUARE(lambda g, x: 2 * g * x), arg, wanted=[True])
    assert (found.verdict, reason in found.reason) == ("unknown", True)


def test_after_the_deadline_everything_is_unknown():
    found = verdict(Softmax, draw(3, 3), deadline=clock.now() - 1)
    assert (found.verdict, found.reason) == ("unknown", "time limit")


def test_a_parameter_hidden_where_it_cannot_be_reached_is_unknown():
    found = verdicts(Rerun, lambda x: (x @ WEIGHT).sin(), draw(5, 3), WEIGHT)
    assert [v.verdict for v in found] == ["unknown", "unknown"]

    class Elsewhere(Rerun):
        @staticmethod
        def backward(ctx, cotangent):
            return None, cotangent @ WEIGHT.t(), ctx.saved_tensors[0].t() @ cotangent

    found = verdicts(Elsewhere, lambda x: x @ WEIGHT, draw(5, 3), WEIGHT)
    assert [v.verdict for v in found] == ["right", "unknown"]
    assert "may hold" in found[1].reason


class Holding:
    """Of a tensor, and not to be copied."""

    def __init__(self, x):
        self.x = x

    def __deepcopy__(self, memo):
        raise TypeError("not this")


def test_an_input_that_an_object_holds_is_unknown_where_rounding_alone_moves_the_output():
    class Wobbles(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, held, x):
            Wobbles.calls += 1
            ctx.save_for_backward(x)
            return held.x.sin() * (1 + 1e-8 * (Wobbles.calls > 5))

        @staticmethod
        def backward(ctx, cotangent):
            return None, cotangent * ctx.saved_tensors[0].cos()

    x = draw(3, 5)
    (found,) = verdicts(Wobbles, Holding(x), x)
    assert (found.verdict, "may hold" in found.reason) == ("unknown", True)


def test_a_gradient_at_a_point_that_has_none_is_never_wrong():
    median = function(lambda x: x.median(-1).values, medians_gradient)
    assert verdict(median, torch.zeros(3, 5)).verdict == "unknown"
    assert verdict(torch.nn.functional.normalize, torch.zeros(3, 4)).verdict == "unknown"


def first_spike(x):
    """The index of the first entry that is not zero, out of zeros and ones; differentiable in that entry alone."""
    times = torch.arange(1, len(x) + 1).to(x.dtype)[:, None] * x
    first = torch.zeros_like(x[0])
    for time_ in times:
        first = first + time_ * ~first.bool()
    return first


def test_where_the_forward_jumps_at_the_very_input_nothing_is_wrong():
    spikes = (draw(15, 40) > 1).float()
    found = verdict(function(first_spike, lambda g, x: -g * x), spikes)
    assert found.verdict == "unknown"
    assert "jumps at this very input" in found.reason


def null_space(x):
    return torch.linalg.svd(x.detach())[2][..., -2:, :].mT.contiguous()


def of_the_subspace(g, x):
    """What moves the null space out of itself; how the basis turns inside it is left out."""
    _, s, v = torch.linalg.svd(x)
    inside, outside = v[..., -2:, :].mT, v[..., :-2, :].mT
    m = outside @ (-(outside.mT @ g) / s[..., :, None] ** 2) @ inside.mT
    return x @ (m + m.mT)


def test_the_gradient_of_a_subspace_is_judged_by_the_cotangents_of_the_run():
    x = draw(4, 7, 9, dtype=torch.float64)
    basis = null_space(x).requires_grad_()
    (basis @ basis.mT * draw(9, 9, dtype=torch.float64)).sum().backward()
    right = function(null_space, of_the_subspace)
    wrong = function(null_space, lambda g, x: 0.5 * of_the_subspace(g, x) + x)
    found = verdict(right, x, received=[basis.grad])
    assert found.verdict == "unknown"
    assert "svd" in found.reason
    assert verdict(wrong, x, received=[basis.grad]).verdict == "wrong"
    assert verdict(right, x).verdict == "wrong"  # of a basis, for all that is known


def test_numbers_too_large_to_square_are_not_judged():
    found = verdict(SQUARE(lambda g, x: 3 * g * x), torch.tensor([1e200, 1.0], dtype=torch.float64))
    assert (found.verdict, "overflow" in found.reason) == ("unknown", True)


def test_an_adjoint_solved_to_its_own_tolerance_is_not_called_wrong():
    class Adjoint(Rerun):
        @staticmethod
        def backward(ctx, cotangent):
            none, *found = Rerun.backward(ctx, cotangent)
            return none, *[gradient + 1e-3 * gradient.flip(0) for gradient in found]

    module = torch.nn.Linear(3, 2)
    assert {v.verdict for v in verdicts(Adjoint, module, draw(5, 3), *module.parameters())} <= {"unknown", "right"}


@pytest.mark.parametrize("left, outcome", [(1e-8, "unknown"), (1e-3, "wrong")])
def test_what_a_solver_leaves_where_a_constraint_is_not_active_is_not_called_wrong(left, outcome):
    class Bounded(torch.autograd.Function):
        """The lesser of x and its bound, smoothly, which autograd does not see."""

        @staticmethod
        def forward(ctx, x, bound):
            both = torch.stack([x, bound]).detach().numpy()
            return torch.from_numpy(-np.logaddexp(*(-30 * both)) / 30)

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * (1 - left), cotangent * left

    x = draw(5, dtype=torch.float64)
    _, found = verdicts(Bounded, x, x.abs() + x + 1)
    assert found.verdict == outcome


# --- each oracle is needed -------------------------------------------------------------------------------------------


def test_autograd_alone_would_call_a_solver_wrong():
    assert verdict(CubeRootByBisection, draw(6)).oracles == (DIFFERENCES,)


def test_differences_alone_would_say_nothing_where_everything_is_a_kink():
    assert AUTOGRAD in verdict(Relu, torch.zeros(5)).oracles


def test_nothing_of_the_callers_changes():
    x, state = draw(*SHAPE), torch.get_rng_state()
    before, default = x.clone(), torch.get_default_dtype()
    verdict(InPlaceExp, x)
    verdict(Dropout, x, 0.5)
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() is default


def test_only_wanted_inputs_are_judged():
    found = judge_values(Matmul, [draw(2, 2), draw(2, 2)], [False, True], names=["a", "b"])
    assert [(v.index, v.name) for v in found] == [(1, "b")]


@pytest.mark.parametrize("opaque", [False, True])
def test_of_a_symmetric_matrix_only_symmetric_directions_are_asked_where_one_triangle_is_read(opaque):
    """``cholesky`` reads one triangle and returns a symmetric gradient: right among symmetric matrices."""
    factor = draw(4, 4, dtype=torch.float64)
    matrix = factor @ factor.T + torch.eye(4)

    def gradient(g, x, share=1.0):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            return share * torch.autograd.grad(torch.linalg.cholesky(x), x, g)[0]

    subject = function(lambda x: torch.linalg.cholesky(x.detach() if opaque else x), gradient)
    assert verdict(subject, matrix).verdict == "right"
    half = function(lambda x: torch.linalg.cholesky(x.detach() if opaque else x), lambda g, x: gradient(g, x, 0.5))
    assert verdict(half, matrix).verdict == "wrong"


class SineOfMuch(torch.autograd.Function):
    """Two outputs, in NumPy: something large, and its sine, which goes round many times within any usual step."""

    @staticmethod
    def forward(ctx, x):
        large = 1e5 * x.detach().numpy() ** 2
        ctx.save_for_backward(x)
        return torch.from_numpy(large), torch.from_numpy(np.sin(large))

    @staticmethod
    @once_differentiable
    def backward(ctx, cotangent, of_sine):
        (x,) = ctx.saved_tensors
        return (cotangent + of_sine * torch.cos(1e5 * x**2)) * 2e5 * x


def test_what_swings_faster_than_the_steps_is_not_called_wrong():
    assert verdict(SineOfMuch, draw(3, 4, dtype=torch.float64)).verdict in ("right", "unknown")


class SincUnguarded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x == 0, torch.ones_like(x), x.sin() / x)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * (x * x.cos() - x.sin()) / x**2


def test_a_gradient_that_is_nan_where_the_derivative_is_finite_is_wrong():
    found = verdict(SincUnguarded, torch.tensor([1.0, 0.0, 2.0]))
    assert (found.verdict, found.cause, found.at) == ("wrong", "not finite", (1,))
    assert math.isnan(found.returned) and found.expected == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("subject", "x"),
    [
        (torch.sqrt, torch.tensor([0.0, 1.0])),
        (lambda x: x.abs().sqrt(), torch.tensor([0.0, 1.0])),
        (lambda x: (x**2).sum().sqrt(), torch.zeros(3)),
        (lambda x: torch.linalg.eigh(x)[1], torch.eye(3)),
    ],
)
def test_a_gradient_that_is_not_finite_where_there_is_none_is_unknown(subject, x):
    assert verdict(subject, x).verdict == "unknown"
