"""Every rule, over the whole float range and at every kink, against torch's autograd of the plain operation.

Where torch is wrong, or NaN by 0 * inf, ``DIVERGENCES`` says so, and what is right instead.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from mpmath import MPContext
from tests.kernels.formula.evaluated import (
    ONE_ARGUMENT,
    PLAIN,
    TWO_ARGUMENTS,
    gradients,
    numbers,
    second_gradients,
    torchs_gradients,
)
from torch import Tensor

from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties
from gradwright.kernels.formula.expression import Expression, call, constant, number
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import RULES, Partial

mp = MPContext()
mp.dps = 40
INF, NAN = math.inf, math.nan
TINIEST, TINY, HUGE = 5e-324, 2.0**-1022, 1.7976931348623157e308
EDGES = (1 - 1e-10, 1 - 2.0**-53, 20.0, 30.0, 36.8, 88.0, 709.5, 710.0, 745.0, 746.0)
POINTS = [
    *(0.0, -0.0, NAN),
    *(sign * size for size in (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 1e-9, 1e10, 1e160) for sign in (1, -1)),
    *(sign * size for size in (TINIEST, TINY, HUGE, INF, *EDGES) for sign in (1, -1)),
]
FEW = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, TINIEST, INF, -INF, NAN]


def slope_of_sigmoid(x: float) -> float:
    return float(mp.exp(-abs(x)) / (1 + mp.exp(-abs(x))) ** 2) if math.isfinite(x) else 0.0


def bend_of_sigmoid(x: float) -> float:
    return -slope_of_sigmoid(x) * math.tanh(x / 2)


def third_of_sigmoid(x: float) -> float:
    return slope_of_sigmoid(x) * (1 - 6 * slope_of_sigmoid(x))


def sech_square(x: float) -> float:
    return float(mp.sech(x) ** 2) if math.isfinite(x) else 0.0


def mixed_of_pow(x: float, n: float) -> float:
    """d²(x^n)/dx dn = x^(n - 1) (1 + n log(x)), and its limit for x = 0."""
    if x == 0:
        return 0.0 if n > 1 else -INF if n == 1 else INF if n < 0 else NAN  # NaN: inf - inf, though it is -inf
    return float(mp.mpf(x) ** (n - 1) * (1 + n * mp.log(x))) if x > 0 else NAN


class Divergence(NamedTuple):
    """Where torch's is not the derivative; ``which``: 0 for the value, then the gradients, then the Hessian's rows."""

    operation: str
    which: tuple[int, ...]
    where: Callable[..., bool]
    right: Callable[..., float]


DIVERGENCES = [
    # torch computes exp(x) - 1 + 1, which is 0 beyond -37
    Divergence("expm1", (1, 2), lambda x: x < -10, math.exp),
    # torch computes 1 - tanh(x)², which is 0 beyond 20
    Divergence("tanh", (1,), lambda x: abs(x) > 2, sech_square),
    Divergence("tanh", (2,), lambda x: abs(x) > 2, lambda x: -2 * sech_square(x) * math.tanh(x)),
    # torch computes s (1 - s), which is 0 beyond 37; and 1 - 2 s, which loses x near 0
    Divergence("sigmoid", (1,), lambda x: abs(x) > 2, slope_of_sigmoid),
    Divergence("sigmoid", (2,), lambda x: abs(x) > 2 or abs(x) < 1e-6, bend_of_sigmoid),
    Divergence("softplus", (1,), lambda x: x < -709.7, lambda x: 0.0),  # as torch.sigmoid has it
    Divergence("softplus", (2,), lambda x: abs(x) > 2, slope_of_sigmoid),
    Divergence("sigmoid_slope", (0,), lambda x: abs(x) > 700, slope_of_sigmoid),
    Divergence("sigmoid_slope", (1,), lambda x: abs(x) > 700 or abs(x) < 1e-6, bend_of_sigmoid),
    Divergence("sigmoid_slope", (2,), lambda x: abs(x) > 700, third_of_sigmoid),
    # 1/cosh(x)² is inf * 0 in torch once cosh overflows
    Divergence("sech_square", (1, 2), lambda x: abs(x) > 700, lambda x: 0.0),
    # exp(-x²) times inf, the derivative of x²
    Divergence("erf", (2,), lambda x: 1e300 < abs(x) < INF, lambda x: 0.0),
    # torch computes 1 - x²: near 1 it keeps half of the digits
    *(
        Divergence(name, (1,), lambda x: 0.9 < abs(x) < 1, lambda x, s=sign: float(s / mp.sqrt(1 - mp.mpf(x) ** 2)))
        for name, sign in (("asin", 1), ("acos", -1))
    ),
    *(
        Divergence(
            name,
            (2,),
            lambda x: 0.9 < abs(x) < 1,
            lambda x, s=sign: float(s * x / mp.sqrt(1 - mp.mpf(x) ** 2) ** 3),
        )
        for name, sign in (("asin", 1), ("acos", -1))
    ),
    # n = 0: torch's slope is a constant 0 there, and its derivative by x is 0 * inf
    Divergence("pow", (3,), lambda x, n: n == 0, lambda x, n: 0.0),
    # n = 0: the derivative by n of torch's constant 0 is 0, not 1 / x. x = 0: of its constant 0, it is 0 * inf.
    # x = inf or x < 0: nothing is right (log(x) is NaN or infinite)
    Divergence("pow", (4, 5), lambda x, n: 0 < x < INF and n == 0, lambda x, n: 1 / x),
    Divergence("pow", (4, 5), lambda x, n: x == 0 and math.isfinite(n), mixed_of_pow),
    # x^n underflows or overflows, or x^(n - 1) does, before it is multiplied
    Divergence("pow", (5,), lambda x, n: 1e150 < x < INF and n in (1.5, 2.0), mixed_of_pow),
    Divergence("pow", (4, 5), lambda x, n: x == TINY and math.isfinite(n) and n != 0, mixed_of_pow),
    Divergence("pow", (6,), lambda x, n: x == 0 and n >= 0, lambda x, n: 0.0),
    Divergence("0.0 ** a", (2,), lambda n: n >= 0, lambda n: 0.0),
]


def is_undefined(x: float, n: float) -> bool:
    """Nothing is right: the derivative of pow by both for a negative base (its logarithm is NaN), and inf - inf or
    0 * inf of an infinite base or exponent, or of a base whose reciprocal is; or 1 + n log(x) cancels."""
    cancels = 0.99 < x < 1 and n == 1e10
    return math.copysign(1, x) < 0 or math.isinf(x) or math.isinf(n) or x == TINIEST or cancels


def faults(operation: str, plain: Callable[..., Tensor], output: Expression, points: list[float]) -> Iterator[str]:
    """Where value, gradients or Hessian of ``output`` are neither torch's of ``plain`` nor the right ones."""
    names = sorted({argument.name for argument in output.arguments if argument.name})
    tuples = list(itertools.product(points, repeat=len(names)))
    operands = [torch.tensor([each[k] for each in tuples], dtype=torch.float64) for k in range(len(names))]
    program = Program(tuple(names), (output,))
    ours = [*numbers(program, *operands), *gradients(program, *operands), *second_gradients(program, *operands)]
    first, second = torchs_gradients(plain, *operands)
    truths = [plain(*operands), *first, *second]
    for which, (mine, truth) in enumerate(zip(ours, truths, strict=True)):
        right = truth.clone()
        for index, point in enumerate(tuples):
            for each in DIVERGENCES:
                if each.operation == operation and which in each.which and each.where(*point):
                    right[index] = each.right(*point)
        for index in (
            (~torch.isclose(mine, right, rtol=2e-13, atol=1e-9 * TINY, equal_nan=True)).nonzero().flatten().tolist()
        ):
            if operation != "pow" or which not in (4, 5) or not is_undefined(*tuples[index]):
                yield f"{operation}{tuples[index]}, {which}: {mine[index].item()}, not {right[index].item()}"


A, B, C = (number(name) for name in "abc")


@pytest.mark.parametrize("operation", ONE_ARGUMENT)
def test_values_and_both_derivatives_of_one_argument(operation: str) -> None:
    assert not list(faults(operation, PLAIN[operation], call(operation, A), POINTS))


@pytest.mark.parametrize("operation", TWO_ARGUMENTS)
def test_values_and_both_derivatives_of_two_arguments(operation: str) -> None:
    assert not list(faults(operation, PLAIN[operation], call(operation, A, B), POINTS))


CLAMPS_BY_TENSORS = {
    "clamp(a, b, c)": (torch.clamp, call("clamp", A, B, C)),
    "clamp(a, min=b)": (torch.clamp, call("clamp", A, B, constant(INF))),
    "clamp(a, max=b)": (lambda a, b: torch.clamp(a, max=b), call("clamp", A, constant(-INF), B)),
    "clamp(a, 0, b)": (lambda a, b: torch.clamp(a, torch.zeros_like(a), b), call("clamp", A, constant(0.0), B)),
    "clamp(a, b, 1)": (lambda a, b: torch.clamp(a, b, torch.ones_like(a)), call("clamp", A, B, constant(1.0))),
    "clamp(2, a, b)": (lambda a, b: torch.clamp(torch.full_like(a, 2), a, b), call("clamp", constant(2.0), A, B)),
}


@pytest.mark.parametrize("name", CLAMPS_BY_TENSORS)
def test_values_and_both_derivatives_of_clamp_by_tensors(name: str) -> None:
    plain, output = CLAMPS_BY_TENSORS[name]
    assert not list(faults("clamp", plain, output, FEW))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, -1.0), (0.0, 0.0), (-INF, 0.5), (NAN, 1.0)], ids=str)
def test_values_and_both_derivatives_of_clamp_by_numbers(low: float, high: float) -> None:
    output = call("clamp", A, constant(low), constant(high))
    least = None if low == -INF else low  # a bound that is infinite counts as none
    assert not list(faults("clamp", lambda x: torch.clamp(x, least, high), output, POINTS))


@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, INF, NAN], ids=str)
def test_values_and_both_derivatives_of_a_constant_power(exponent: float) -> None:
    output = call("pow", A, constant(exponent))
    assert not list(faults(f"a ** {exponent}", lambda x: torch.pow(x, exponent), output, POINTS))


@pytest.mark.parametrize("base", [-2.0, 0.0, 0.5, 1.0, 2.0, math.e, INF], ids=str)
def test_values_and_both_derivatives_of_a_power_of_a_constant(base: float) -> None:
    output = call("pow", constant(base), A)
    assert not list(faults(f"{base} ** a", lambda x: torch.pow(base, x), output, POINTS))


# A planted fault each: a sign, a factor, a dropped term, another convention at a kink, a form that cancels.
MUTANTS = {
    "sub: sign": ("sub", lambda y: Partial()),
    "mul: the other argument": ("mul", lambda y: Partial(y.arguments[0])),
    "div: factor": ("div", lambda y: Partial(over=y.arguments[1], coefficient=2.0)),
    "pow: exponent not lowered": ("pow", lambda y: Partial(y.arguments[1] * y)),
    "pow: no convention at 0": ("pow", lambda y: Partial(y.arguments[1] * call("pow", A, y.arguments[1] - 1.0))),
    "maximum: a tie to one": ("maximum", lambda y: Partial(guard=call("ge", *y.arguments))),
    "maximum: NaN to none": ("maximum", lambda y: RULES["maximum"][1](y)._replace(guard=call("gt", *y.arguments))),
    "abs: 1 at 0": ("abs", lambda y: Partial(call("sign", y.arguments[0] + 5e-324))),
    "tan: dropped term": ("tan", lambda y: Partial(y * y)),
    "expm1: cancels": ("expm1", lambda y: Partial(y + 1.0)),
    "sigmoid: cancels": ("sigmoid", lambda y: Partial(y * (1.0 - y))),
    "sqrt: flat at 0": ("sqrt", lambda y: Partial(over=y, coefficient=0.5, guard=call("ne", y, constant(0.0)))),
    "cos: sign": ("cos", lambda y: Partial(call("sin", y.arguments[0]))),
    "erf: factor": ("erf", lambda y: Partial(call("exp_neg_square", y.arguments[0]), coefficient=1.128)),
    "softplus: of the negative": ("softplus", lambda y: Partial(call("sigmoid", -y.arguments[0]))),
    "sech_square: sign": ("sech_square", lambda y: Partial(call("tanh", y.arguments[0]) * y, coefficient=2.0)),
    "acos: cancels": ("acos", lambda y: Partial(over=call("sqrt", 1.0 - A * A), coefficient=-1.0)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_wrong_rule_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, rule = MUTANTS[mutant]
    monkeypatch.setitem(RULES, operation, (rule, *RULES[operation][1:]) if operation != "sub" else (rule, rule))
    output = call(operation, *(A, B)[: ARITY[operation]])
    assert list(faults(operation, PLAIN[operation], output, POINTS))


CONVENTIONS = [Ties(numbers, tensors) for numbers in (True, False) for tensors in (True, False)]


@pytest.mark.parametrize("name", CLAMPS_BY_TENSORS)
def test_the_other_convention_of_clamp_by_tensors_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, output = CLAMPS_BY_TENSORS[name]
    real = ties.find_ties()
    monkeypatch.setattr(ties, "find_ties", lambda: real._replace(shares_with_tensors=not real.shares_with_tensors))
    assert list(faults("clamp", plain, output, FEW))


def test_the_other_convention_of_clamp_by_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ties.find_ties()
    monkeypatch.setattr(ties, "find_ties", lambda: real._replace(passes_at_numbers=not real.passes_at_numbers))
    output = call("clamp", A, constant(-1.0), constant(1.0))
    found = list(faults("clamp", lambda x: torch.clamp(x, -1, 1), output, POINTS))
    assert {fault.partition(",")[0] for fault in found} == {"clamp(1.0", "clamp(-1.0"}


# (x, low, high) -> the slopes of x, low and high: where x has all of a tie with a tensor, and where they share it.
AT_TENSORS = {
    (0.0, 0.0, 1.0): ((1, 0, 0), (0.5, 0.5, 0)),
    (1.0, 0.0, 1.0): ((1, 0, 0), (0.5, 0, 0.5)),
    (0.5, 0.0, 1.0): ((1, 0, 0), (1, 0, 0)),
    (-1.0, 0.0, 1.0): ((0, 1, 0), (0, 1, 0)),
    (2.0, 0.0, 1.0): ((0, 0, 1), (0, 0, 1)),
    (1.0, 1.0, 1.0): ((1, 0, 0), (1, 0, 0)),
    (0.0, 1.0, 1.0): ((0, 0, 0), (0, 1, 0)),
    (2.0, 1.0, 1.0): ((0, 0, 1), (0, 0, 1)),
    (0.5, 1.0, 0.0): ((0, 0, 1), (0, 0, 1)),
    (0.0, 1.0, 0.0): ((0, 0, 1), (0, 0, 1)),
    (NAN, 0.0, 1.0): ((0, 0, 0), (1, 0, 0)),
    (NAN, 1.0, 0.0): ((0, 0, 1), (1, 0, 1)),
    (0.0, NAN, 1.0): ((0, 0, 0), (1, 0, 0)),
    (2.0, NAN, 1.0): ((0, 0, 1), (0, 0, 0)),
    (0.0, 0.0, NAN): ((0, 0, 0), (1, 0, 0)),
}
# (x, low) -> the slopes of x and low in clamp(x, min=low), likewise.
AT_ONE_TENSOR = {
    (0.0, 0.0): ((1, 0), (0.5, 0.5)),
    (INF, INF): ((1, 0), (0.5, 0.5)),
    (1.0, 0.0): ((1, 0), (1, 0)),
    (-1.0, 0.0): ((0, 1), (0, 1)),
    (NAN, 0.0): ((0, 0), (1, 1)),
    (0.0, NAN): ((0, 0), (1, 1)),
}


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_the_slopes_of_clamp_follow_either_convention(convention: Ties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "find_ties", lambda: convention)
    both = Program(("a", "b", "c"), (call("clamp", A, B, C),))
    least = Program(("a", "b"), (call("clamp", A, B, constant(INF)),))
    most = Program(("a", "b"), (call("clamp", A, constant(-INF), B),))
    for table, program, sign in ((AT_TENSORS, both, 1), (AT_ONE_TENSOR, least, 1), (AT_ONE_TENSOR, most, -1)):
        for point, slopes in table.items():
            found = gradients(program, *[torch.tensor(sign * each, dtype=torch.float64) for each in point])
            assert tuple(each.item() for each in found) == slopes[convention.shares_with_tensors], point
    numbers_as_bounds = Program(("a",), (call("clamp", A, constant(0.0), constant(1.0)),))
    (at_points,) = gradients(numbers_as_bounds, torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, NAN]))
    at_bound = float(convention.passes_at_numbers)
    assert at_points.tolist() == [0, at_bound, 1, at_bound, 0, 0]
    for program in (both, least, most, numbers_as_bounds):
        points = [
            torch.tensor(each, dtype=torch.float64)
            for each in zip(*itertools.product(FEW, repeat=len(program.inputs)), strict=True)
        ]
        assert all(not bent.any() for bent in second_gradients(program, *points))


def test_a_planted_wrong_bound_of_clamp_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_bounds(y: Expression) -> Partial:
        return Partial(guard=call("lt", y.arguments[1], y.arguments[0]))

    monkeypatch.setitem(RULES, "clamp", (without_bounds, *RULES["clamp"][1:]))
    assert list(faults("clamp", torch.clamp, call("clamp", A, B, C), FEW))
