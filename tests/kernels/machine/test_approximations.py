"""Every function of float32 kernels against float64 torch, over bit patterns of the whole range.

Every 20,011th of all float32 (a prime, so that exponents, signs and last bits all vary), and the neighbourhoods of
where a function changes its way. All 2^32 were tried once, by hand, for every function but tan and the composed ones.
"""

import math
from collections.abc import Callable
from functools import cache

import pytest
import torch
from tests.kernels.one_loop import computed
from tests.laws import Laws
from torch import Tensor

from gradwright.kernels.code.strength_reduction import reduced
from gradwright.kernels.formula.expression import Expression, call, constant, number
from gradwright.kernels.formula.program import Program
from gradwright.kernels.machine.approximations import APPROXIMATIONS

LIMIT = 1e-6
FOUND = 3e-7  # the largest relative error of any of them, but for the square of a quotient
FOUND_ELSE = {"sech_square_of_softplus": 6e-7}
SMALLEST = 2.0**-149
LARGEST = float(torch.finfo(torch.float32).max)


def decay(x: Tensor, times: float = 1.0) -> Tensor:
    return torch.exp(-times * x.abs())


# In float64, each in a form that keeps its relative accuracy.
TRUTHS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "erf", "sign", "tanh")},
    **{name: getattr(torch, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh")},
    "exp_neg_square": lambda x: torch.exp(-x * x),
    "sigmoid": lambda x: torch.where(x < 0, decay(x), 1.0) / (1 + decay(x)),
    "sigmoid_slope": lambda x: decay(x) / (1 + decay(x)) ** 2,
    "softplus": lambda x: x.clamp(min=0) + torch.log1p(decay(x)),
    "sech_square": lambda x: 4 * decay(x, 2.0) / (1 + decay(x, 2.0)) ** 2,
    "tanh_of_half": lambda x: torch.tanh(x / 2),
    "exp_below_zero": lambda x: decay(x),
    "expm1_below_zero": lambda x: torch.expm1(-x.abs()),
    "log1p_up_to_one": lambda x: torch.log1p(decay(x)),
    "tanh_of_softplus": lambda x: torch.tanh(torch.logaddexp(x, torch.zeros_like(x))),
    "sech_square_of_softplus": lambda x: (2 / (1 + x.exp() + 1 / (1 + x.exp()))) ** 2,
}
# Those that are tried where subnormals are flushed.
FLUSHED = {"exp", "log", "tanh", "sech_square", "softplus", "erf", "sin", "sinh"}
# Where a function, or what it is made of, changes its way or its result's kind.
TURNS = [
    *[
        0.0,
        2.0**-149,
        2.0**-126,
        2.0**-125,
        1e-30,
        2.0**-24,
        2.0**-13,
        0.5,
        0.7071067811865476,
        1.0,
        1.4142135623730951,
    ],
    *[2.0, 3.92, 4.0, 9.35, 10.2, 11.0, 16.6, 17.3, 20.0, 43.6, 51.9, 87.3365, 88.0297, 88.7228, 89.416, 89.5, 103.28],
    *[103.972, 104.0, 110.0, 1e5, 2.0**20, 2.0**23, 2.0**24, 2.0**53, 2.0**64, 2.0**127, LARGEST, math.inf],
    *[k * math.log(2) / 2 for k in range(1, 12)],
    *[k * math.pi / 4 for k in range(1, 30)],
    *[math.exp(k / 2) - 1 for k in range(-8, 8)],
]


@cache
def everywhere() -> Tensor:
    bits = torch.arange(-(2**31), 2**31, 20_011).to(torch.int32)
    turns = torch.tensor([sign * turn for turn in TURNS for sign in (1.0, -1.0)]).view(torch.int32)
    near = (turns[:, None] + torch.arange(-100, 100, dtype=torch.int32)).flatten()
    return torch.cat([bits, near]).view(torch.float32)


def worst_error(result: Tensor, truth: Tensor, x: Tensor) -> tuple[float, float]:
    """The largest relative error of float32 results and the argument where it is, judged against float64.

    An error below the rounding of a subnormal counts as none. Infinite where a result that is to be zero, infinite or
    NaN isn't so, or has the wrong sign; near the largest float32 both infinity and a number are right.
    """
    rounded, y = truth.float().double(), result.double()
    is_special = ~rounded.isfinite() | ~y.isfinite() | (truth == 0)
    agrees = ((y == rounded) & (torch.signbit(y) == torch.signbit(rounded))) | (y.isnan() & rounded.isnan())
    agrees |= (truth.abs() / LARGEST - 1).abs() < 1e-6
    error = ((y - truth).abs() - SMALLEST * 0.5000001).clamp(min=0) / truth.abs()
    error = torch.where(is_special, torch.where(agrees, 0.0, math.inf), error)
    worst = int(error.argmax())
    return float(error[worst]), float(x[worst])


def formula(name: str) -> Expression:
    """Of which ``strength_reduction`` makes the function."""
    x = number("x")
    shrinking = -call("abs", x)
    formulas = {
        "tanh_of_half": call("tanh", x * 0.5),
        "tanh_of_softplus": call("tanh", call("softplus", x)),
        "sech_square_of_softplus": call("sech_square", call("softplus", x)),
        "exp_below_zero": call("exp", shrinking),
        "expm1_below_zero": call("expm1", shrinking),
        "log1p_up_to_one": call("log1p", call("exp", shrinking)),
    }
    return formulas.get(name) or call(name, x)


laws = Laws[str]()


@pytest.mark.parametrize("name", sorted(TRUTHS))
def test_of_every_function_every_other_law_holds(name: str) -> None:
    laws.hold(name)


@pytest.mark.parametrize("name", sorted(TRUTHS))  # test_vectors.py runs it on an older processor
def test_float32_is_right_over_the_whole_range(name: str) -> None:
    x = everywhere()
    (result,) = computed(Program(("x",), (formula(name),)), torch.float32)(x)
    error, where = worst_error(result, TRUTHS[name](x.double()), x)
    assert error < FOUND_ELSE.get(name, FOUND) < LIMIT, f"{name} is off by {error:.3g} at {where!r}"


@laws.where(lambda name: name in FLUSHED)
def where_subnormals_are_flushed_normal_numbers_are_right(name: str) -> None:
    """As torch.set_flush_denormal(True) has them, which holds for the code that runs on the thread."""
    x = everywhere()
    truth = TRUTHS[name](x.double())
    kept = ((x.abs() >= 2.0**-126) | (x == 0)) & ((truth.abs() >= 2.0**-125) | (truth == 0))
    function = computed(Program(("x",), (formula(name),)), torch.float32)
    try:
        is_flushed = torch.set_flush_denormal(True)
        (result,) = function(x)
    finally:
        torch.set_flush_denormal(False)
    error, where = worst_error(result[kept], truth[kept], x[kept])
    assert error < FOUND, f"{name} is off by {error:.3g} at {where!r} (flushed: {is_flushed})"


@laws
def float64_is_the_mathematical_library(name: str) -> None:
    x = everywhere()[::7].double() * (1 + 2.0**-30)
    (result,) = computed(Program(("x",), (formula(name),)), torch.float64)(x)
    truth = TRUTHS[name](x)
    is_off = (result - truth).abs() > 1e-14 * truth.abs() + 2.0**-1070
    assert not (is_off & truth.isfinite()).any()
    assert torch.equal(result.isnan(), truth.isnan())


def test_every_function_has_a_truth() -> None:
    assert set(APPROXIMATIONS) - {"power", "maximum", "minimum"} == set(TRUTHS)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda y: y * (1 + 1.5e-6), id="off-by-more-than-allowed"),
        pytest.param(lambda y: torch.where(y.abs() < 2.0**-126, y * 0, y), id="subnormals-flushed"),
        pytest.param(lambda y: torch.where(y == 0, -y, y), id="sign-of-zero"),
        pytest.param(lambda y: torch.where(y.isnan(), 0.0, y), id="nan-lost"),
        pytest.param(lambda y: y.clamp(max=LARGEST), id="infinity-lost"),
        pytest.param(lambda y: torch.where(y.abs() > 1e38, math.inf, y), id="early-overflow"),
    ],
)
def test_the_judge_rejects_a_planted_fault(fault: Callable[[Tensor], Tensor]) -> None:
    x = everywhere()
    truth = torch.sinh(x.double())
    right = truth.float()
    assert worst_error(right, truth, x)[0] < 1e-7
    assert worst_error(fault(right), truth, x)[0] > LIMIT


def pairs() -> tuple[Tensor, Tensor]:
    """Bases and exponents: each special with each, then bases of every size with exponents that keep the result in
    range for most, a third of them whole."""
    specials = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 2.0**24 - 1, 2.0**24, 2.0**25 + 4, 2.0**-149, 1e-40, 3e38, math.inf]
    specials += [1 + 2.0**-23, 1 - 2.0**-24, 8388607.5, 1e10]
    both = torch.tensor([sign * value for value in specials for sign in (1.0, -1.0)] + [math.nan])
    bases, exponents = both.repeat_interleave(len(both)), both.repeat(len(both))
    random = torch.Generator().manual_seed(0)
    more = torch.randint(-(2**31), 2**31, (300_000,), generator=random).to(torch.int32).view(torch.float32)
    spread = torch.randn(300_000, generator=random) * torch.randn(300_000, generator=random).exp()
    spread = torch.where(torch.rand(300_000, generator=random) < 0.3, (spread * 3).round(), spread)
    return torch.cat([bases, more]), torch.cat([exponents, spread])


def test_pow_is_right_for_every_special_and_every_size() -> None:
    x, n = pairs()
    (result,) = computed(Program(("x", "n"), (call("pow", number("x"), number("n")),)), torch.float32)(x, n)
    error, where = worst_error(result, torch.pow(x.double(), n.double()), x)
    assert error < 1e-7, f"pow is off by {error:.3g} for a base of {where!r}"


@pytest.mark.parametrize(
    "exponent", [-8, -7.5, -3, -1.25, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.75, 7, 8]
)
def test_a_power_by_multiplication_is_the_power(exponent: float) -> None:
    """With torch's own convention for square roots, which differs from pow's at -0.0 and -inf."""
    x = everywhere()
    program = Program(("x",), (call("pow", number("x"), constant(exponent)),))
    assert all(node.operation != "pow" for node in reduced(program.outputs))
    (result,) = computed(program, torch.float32)(x)
    error, where = worst_error(result, torch.pow(x.double(), exponent), x)
    assert error < LIMIT, f"off by {error:.3g} at {where!r}"
