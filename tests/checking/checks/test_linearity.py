"""What the linearity check finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.linearity import CHECK
from gradwright.checking.cotangents import Tried
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args, **options):
    """What it says; what it saw under each cotangent is ``test_cotangents``' to ask."""
    return [answer for answer in CHECK.run(pose(subject, args, **options)) if not isinstance(answer, Tried)]


def findings(subject, *args, **options):
    return [answer for answer in answers(subject, *args, **options) if isinstance(answer, Finding)]


def checks_that_find_something(subject, *args):
    return {found.check for found in gw.check(subject, *args).findings}


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent * ctx.saved_tensors[0]


def spoiled(change, name="Spoiled"):
    """The square, its cotangent put through ``change`` first."""

    def backward(ctx, cotangent):
        return Square.backward(ctx, change(cotangent))

    return type(name, (Square,), {"backward": staticmethod(backward)})


ONLY_HERE = {
    "clamped far out": lambda g: g.clamp(-1e4, 1e4),
    "clamped from below only": lambda g: g.clamp(min=-1e3),
    "clipped by its norm": lambda g: g * (1e3 / g.norm()).clamp(max=1),
    "dead near zero": lambda g: torch.where(g.abs() < 1e-5, 0.0, g),
    "divided by its norm and multiplied again": lambda g: g / g.norm() * g.norm(),
    "divided entry by entry": lambda g: g * g / g,
    "logarithm": lambda g: g.sign() * g.abs().log().exp() if bool(g.all()) else g * torch.nan,
}


@pytest.mark.parametrize("change", ONLY_HERE.values(), ids=ONLY_HERE)
def test_only_this_check_sees_what_ordinary_cotangents_do_not_show(change):
    assert checks_that_find_something(spoiled(change), draw(3, 4)) == {"linearity"}


EVERYWHERE = {
    "abs": torch.abs,
    "sign": torch.sign,
    "relu": torch.relu,
    "clamp": lambda g: g.clamp(-1, 1),
    "square": lambda g: g * g,
    "norm": lambda g: g / g.norm(),
    "tanh": torch.tanh,
    "saturating far out": lambda g: 1e6 * torch.tanh(g / 1e6),
}


@pytest.mark.parametrize("change", EVERYWHERE.values(), ids=EVERYWHERE)
def test_what_bends_every_cotangent_is_nonlinear(change):
    (found,) = findings(spoiled(change), draw(3, 4))
    assert (found.code, found.cause, found.input) == ("GW105", "nonlinear in the cotangent", "x")
    assert f"{found.evidence['expected']:.6g}" in found.why


@pytest.mark.parametrize("offset", [1.0, -1e-3, 1e-4])
def test_what_is_added_to_a_gradient_is_an_offset(offset):
    class Added(Square):
        @staticmethod
        def backward(ctx, cotangent):
            return Square.backward(ctx, cotangent) + offset

    (found,) = findings(Added, draw(3, 4))
    assert found.cause == "additive offset"


def test_a_gradient_without_the_cotangent_is_named_so():
    assert findings(spoiled(torch.ones_like), draw(3, 4))[0].cause == "missing grad_output"


def test_nan_for_a_zero_cotangent_is_not_finite():
    (found,) = findings(spoiled(lambda g: g / g.norm() * g.norm()), draw(3, 4))
    assert found.cause == "not finite"
    assert "nan" in found.why


def test_a_backward_that_raises_on_zeros_is_told():
    def insist(g):
        assert bool(g.any()), "no gradient arrived"
        return g

    (found,) = findings(spoiled(insist), draw(3, 4))
    assert "no gradient arrived" in found.why


def test_each_input_is_judged_by_itself():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, cotangent):
            a, b = ctx.saved_tensors
            return cotangent * b, cotangent.clamp(-100, 100) * a

    (found,) = findings(Product, draw(3), draw(3, seed=1))
    assert found.input == "b"
    assert all("2^" in law for law in found.evidence["laws"])


# --- right, though it looks suspicious -------------------------------------------------------------------------------


class ByIteration(torch.autograd.Function):
    """y³ + y = x; its backward solves (3 y² + 1) z = g by a fixed point that stops at an absolute tolerance."""

    @staticmethod
    def forward(ctx, x):
        y = torch.zeros_like(x)
        for _ in range(200):
            y = y - (y**3 + y - x) / (3 * y**2 + 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        slope = 3 * ctx.saved_tensors[0] ** 2 + 1
        step, z = 1 / slope.max() if slope.numel() else 1.0, torch.zeros_like(cotangent)
        for _ in range(10_000):
            residual = cotangent - slope * z
            if not bool((residual.abs() > 1e-8).any()):
                break
            z = z + step * residual
        return z


class HalfInside(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return (2 * cotangent.half() * x.half()).to(cotangent.dtype)


class Masked(Square):
    """Zeros in the mask meet an infinite factor, which is made finite first."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0).sqrt()

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * torch.where(x > 0, 0.5 / x.clamp(min=1e-12).sqrt(), 0.0)


class InfiniteAtZero(Square):
    """As torch has it: the slope of the root at 0 is infinite, and 0 times it NaN."""

    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent / (2 * ctx.saved_tensors[0])


class CountsItsCalls(Square):
    calls = 0

    @staticmethod
    def backward(ctx, cotangent):
        CountsItsCalls.calls += 1
        return Square.backward(ctx, cotangent) * (1 + 0.5 * CountsItsCalls.calls)


@pytest.mark.parametrize("right", [Square, ByIteration, HalfInside, Masked, CountsItsCalls])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (0,)])
def test_what_is_linear_but_for_rounding_tolerance_or_another_fault_is_left_alone(right, shape):
    assert not findings(right, draw(*shape))


def test_an_infinite_slope_is_no_nonlinearity():
    assert not findings(InfiniteAtZero, torch.tensor([0.0, 1.0, 4.0], dtype=torch.float64))


@pytest.mark.parametrize("subject", [torch.fft.fft, torch.linalg.svdvals, torch.prod, torch.nn.Linear(3, 2)])
def test_torch_is_linear(subject):
    dtype = (
        torch.complex128 if subject is torch.fft.fft else torch.float32 if callable(subject) is None else torch.float64
    )
    assert not findings(subject, draw(4, 3).to(dtype))


def test_float32_and_half_are_given_room():
    class Single(Square):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.float())
            return x.float() ** 2

    assert not findings(Single, draw(3, 4, dtype=torch.float32))
    assert not findings(Square, draw(3, 4, dtype=torch.bfloat16))


def test_a_declared_surrogate_may_clip_also_inside_a_callable():
    clipped = gw.surrogate(reason="clips its gradient on purpose")(spoiled(lambda g: g.clamp(-1, 1)))
    for subject in (clipped, lambda x: 2 * clipped.apply(x).sin()):
        (line,) = answers(subject, draw(3, 4))
        assert isinstance(line, NotChecked)
        assert "clips its gradient on purpose" in line.why


def test_a_formula_that_the_gradient_is_held_to_may_clip():
    (line,) = answers(spoiled(lambda g: g.clamp(-1, 1)), draw(3), expect=lambda g, x: 2 * x * g.clamp(-1, 1))
    assert isinstance(line, NotChecked)
