"""Derivatives keep their relative accuracy in float32, from the smallest arguments to where they underflow."""

import math
from collections.abc import Callable, Iterator

import mpmath
import pytest
import torch
from tests.kernels.formula.evaluated import gradients, numbers

from gradwright.kernels.formula.composed import log_cosh
from gradwright.kernels.formula.expression import Expression, call, number
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import RULES, Partial

EPSILON = 2.0**-23
SMALLEST, LARGEST = 2.0**-126, 2.0**127
Real = Callable[[mpmath.mpf], mpmath.mpf]


def sech_square(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sech(x) ** 2


def sigmoid(x: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-x))


def gaussian(x: mpmath.mpf) -> mpmath.mpf:
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)


# Derivative and second derivative; the arguments for which both exist.
TRUTHS: dict[str, tuple[Real, Real, tuple[float, float]]] = {
    "tanh": (sech_square, lambda x: -2 * sech_square(x) * mpmath.tanh(x), (-math.inf, math.inf)),
    "sigmoid": (
        lambda x: sigmoid(x) * sigmoid(-x),
        lambda x: -sigmoid(x) * sigmoid(-x) * mpmath.tanh(x / 2),
        (-math.inf, math.inf),
    ),
    "softplus": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x), (-math.inf, math.inf)),
    "erf": (gaussian, lambda x: -2 * x * gaussian(x), (-math.inf, math.inf)),
    "expm1": (mpmath.exp, mpmath.exp, (-math.inf, math.inf)),
    "log1p": (lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, (-1, math.inf)),
    "log": (lambda x: 1 / x, lambda x: -1 / x**2, (0, math.inf)),
    "sqrt": (lambda x: 1 / (2 * mpmath.sqrt(x)), lambda x: -1 / (4 * mpmath.sqrt(x) ** 3), (0, math.inf)),
    "tan": (lambda x: 1 + mpmath.tan(x) ** 2, lambda x: 2 * mpmath.tan(x) * (1 + mpmath.tan(x) ** 2), (-1.57, 1.57)),
    "asin": (lambda x: 1 / mpmath.sqrt(1 - x * x), lambda x: x / mpmath.sqrt(1 - x * x) ** 3, (-1, 1)),
    "acos": (lambda x: -1 / mpmath.sqrt(1 - x * x), lambda x: -x / mpmath.sqrt(1 - x * x) ** 3, (-1, 1)),
    # beyond, 1 + x² overflows in float32, or 1 / (1 + x²)² underflows
    "atan": (lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2, (-1e9, 1e9)),
    "sinh": (mpmath.cosh, mpmath.sinh, (-math.inf, math.inf)),
}
LOG_COSH = (lambda x: mpmath.log(mpmath.cosh(x)), mpmath.tanh, sech_square)


def arguments(low: float, high: float) -> list[float]:
    """Float32 numbers of every size, and those next to the ends."""
    sizes = [2.0**exponent * mantissa for exponent in range(-126, 127, 3) for mantissa in (1.0, 1.37)]
    sizes += [k / 7 for k in range(1, 140)]
    near = [end - sign * 2.0**-k for end, sign in ((low, -1), (high, 1)) for k in range(1, 24) if math.isfinite(end)]
    every = torch.tensor([*sizes, *(-size for size in sizes), *near], dtype=torch.float32).unique().tolist()
    return [x for x in every if low < x < high]


def errors(computed: torch.Tensor, points: list[float], truth: Real) -> Iterator[float]:
    """The relative error at each point in units of epsilon; where the truth is a normal number."""
    for x, result in zip(points, computed.tolist(), strict=True):
        with mpmath.workdps(100):
            exact = truth(mpmath.mpf(x))
            if SMALLEST < abs(exact) < LARGEST:
                yield float(abs(mpmath.mpf(result) / exact - 1) / EPSILON)


def derivatives(output: Expression, points: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor(points, dtype=torch.float32)
    back = Program(("x",), (output,)).vjp([True], [False])
    (first,) = gradients(Program(("x",), (output,)), x)
    (second,) = numbers(back.vjp([True, False], [False]), x, 1.0, 1.0)
    return first, second


def worst(operation: str) -> float:
    first, second, (low, high) = TRUTHS[operation]
    points = arguments(low, high)
    results = derivatives(call(operation, number("x")), points)
    return max(error for k, truth in enumerate((first, second)) for error in errors(results[k], points, truth))


@pytest.mark.parametrize("operation", TRUTHS)
def test_both_derivatives_are_right_to_a_few_units_in_the_last_place(operation: str) -> None:
    # exp(-x²) multiplies the rounding of x² by x², up to 87
    assert worst(operation) < (44 if operation == "erf" else 4)


def test_log_cosh_and_both_derivatives_are_right_to_a_few_units_in_the_last_place() -> None:
    points = arguments(-math.inf, math.inf)
    output = log_cosh(number("x"))
    (value,) = numbers(Program(("x",), (output,)), torch.tensor(points, dtype=torch.float32))
    for computed, truth in zip((value, *derivatives(output, points)), LOG_COSH, strict=True):
        assert max(errors(computed, points, truth)) < 4


def test_log_cosh_of_specials() -> None:
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])
    program = Program(("x",), (log_cosh(number("x")),))
    assert torch.equal(numbers(program, x)[0][:4], torch.tensor([0.0, 0.0, math.inf, math.inf]))
    assert torch.equal(gradients(program, x)[0][:4], torch.tensor([0.0, 0.0, 1.0, -1.0]))
    assert numbers(program, x)[0][4].isnan() and gradients(program, x)[0][4].isnan()


# The textbook's forms.
CANCELLING: dict[str, Callable[[Expression], Partial]] = {
    "tanh": lambda y: Partial(1.0 - y * y),
    "sigmoid": lambda y: Partial(y * (1.0 - y)),
    "expm1": lambda y: Partial(y + 1.0),
    "asin": lambda y: Partial(over=call("sqrt", 1.0 - y.arguments[0] * y.arguments[0])),
    "softplus": lambda y: Partial(1.0 - call("exp", -y)),
    "log1p": lambda y: Partial(call("exp", -y)),
}


@pytest.mark.parametrize("operation", CANCELLING)
def test_a_form_that_cancels_is_found(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, operation, (CANCELLING[operation],))
    assert worst(operation) > 10
