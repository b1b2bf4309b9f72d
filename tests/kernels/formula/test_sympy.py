"""First, second and third derivatives of random smooth formulas against sympy's, computed with 60 digits.

sympy is an oracle only: its derivatives are NaN in floats where ours are not (research/performance.md).
"""

import math
import random
from collections.abc import Callable

import mpmath
import pytest
import sympy  # type: ignore[import-untyped]
import torch
from tests.kernels.formula.evaluated import gradients, numbers, second_gradients, third_derivative

from gradwright.kernels.formula.expression import Expression, call, constant, number
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.rules import RULES, Partial

X, Y = sympy.symbols("x y", real=True)
SYMPY: dict[str, Callable[..., sympy.Expr]] = {
    **{
        name: getattr(sympy, name)
        for name in ("exp", "log", "sqrt", "erf", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{name: getattr(sympy, name) for name in ("asin", "acos", "atan")},
    "log1p": lambda a: sympy.log(1 + a),
    "expm1": lambda a: sympy.exp(a) - 1,
    "neg": lambda a: -a,
    "sigmoid": lambda a: 1 / (1 + sympy.exp(-a)),
    "softplus": lambda a: sympy.log(1 + sympy.exp(a)),
    "exp_neg_square": lambda a: sympy.exp(-(a**2)),
    "sech_square": lambda a: 1 - sympy.tanh(a) ** 2,
    "sigmoid_slope": lambda a: sympy.exp(a) / (1 + sympy.exp(a)) ** 2,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
}
# The reals on which these are smooth are not all of them: their argument is made positive, or small, first.
POSITIVE = {"log", "sqrt", "log1p"}
SMALL = {"asin", "acos", "tan", "exp", "expm1", "sinh", "cosh"}
Pair = tuple[Expression, sympy.Expr]


def both(operation: str, *arguments: Pair) -> Pair:
    return call(operation, *[a for a, _ in arguments]), SYMPY[operation](*[b for _, b in arguments])


def given(value: float) -> Pair:
    return constant(value), sympy.Rational(value)


def formula(depth: int, choose: random.Random) -> Pair:
    """A formula of ours and the same of sympy's."""
    if depth == 0:
        leaves: list[Pair] = [(number("x"), X), (number("y"), Y), given(choose.choice((0.5, 2.0, 3.0, -1.25)))]
        return choose.choice(leaves)
    operation = choose.choice(sorted(SYMPY))
    a = formula(depth - 1, choose)
    if operation in POSITIVE:
        a = both("softplus", a)
    elif operation in SMALL:
        a = both("mul", given(0.5), both("tanh", a))
    if operation in ("add", "sub", "mul"):
        return both(operation, a, formula(depth - 1, choose))
    if operation == "div":
        return both(operation, a, both("add", given(1.0), both("softplus", formula(depth - 1, choose))))
    if operation == "pow":
        positive = both("add", given(0.5), both("softplus", a))
        exponent = given(choose.choice((2.0, 3.0, 0.5, -1.5))) if choose.random() < 0.5 else both("sin", a)
        return both(operation, positive, exponent)
    return both(operation, a)


def truth(expression: sympy.Expr, x: float, y: float) -> float:
    """Its value, however much cancels."""
    return float(expression.evalf(60, subs={X: sympy.Rational(x), Y: sympy.Rational(y)}, maxn=400))


def faults(ours: Expression, theirs: sympy.Expr, x: float, y: float) -> list[str]:
    program = Program(("x", "y"), (ours,))
    operands = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    found = [*numbers(program, *operands), *gradients(program, *operands), *second_gradients(program, *operands)]
    by_x, by_y = theirs.diff(X), theirs.diff(Y)
    rights = [theirs, by_x, by_y, by_x.diff(X), by_x.diff(Y), by_y.diff(X), by_y.diff(Y)]
    wrong = []
    for mine, right in zip(found, rights, strict=True):
        exact = truth(right, x, y)
        if not math.isclose(mine.item(), exact, rel_tol=1e-8, abs_tol=1e-10):
            wrong.append(f"{mine.item()} is not {exact} = {right}")
    return wrong


@pytest.mark.parametrize("seed", range(18))
def test_first_and_second_derivatives_are_those_of_sympy(seed: int) -> None:
    choose = random.Random(seed)
    ours, theirs = formula(3, choose)
    assert not faults(ours, theirs, choose.uniform(-2, 2), choose.uniform(-2, 2))


FAR = (1e-5, 0.3, 1.0, 2.5, 12.0)
SMOOTH = sorted(name for name in SYMPY if name not in ("add", "sub", "mul", "div", "pow"))


@pytest.mark.parametrize("operation", SMOOTH)
def test_third_derivatives_are_right_far_out_and_near_zero(operation: str) -> None:
    """By repeated vjp."""
    third = sympy.lambdify(X, SYMPY[operation](X).diff(X, 3), modules="mpmath")
    program = Program(("x",), (call(operation, number("x")),))
    points = {"asin": (1e-5, 0.3, 0.999), "acos": (1e-5, 0.3, 0.999), "tan": (1e-5, 0.3, 1.5)}.get(operation, FAR)
    for x in (*points, *(-x for x in points if operation not in POSITIVE)):
        result = third_derivative(program, torch.tensor(x, dtype=torch.float64)).item()
        with mpmath.workdps(80):
            exact = float(third(mpmath.mpf(x)))
        assert math.isclose(result, exact, rel_tol=1e-10), (x, result, exact)


MUTANTS: dict[str, tuple[str, Callable[[Expression], Partial]]] = {
    "exp: factor": ("exp", lambda y: Partial(y, coefficient=1.000001)),
    "log: sign": ("log", lambda y: Partial(over=y.arguments[0], coefficient=-1.0)),
    "log1p: as log": ("log1p", lambda y: Partial(over=y.arguments[0])),
    "sqrt: factor": ("sqrt", lambda y: Partial(over=y)),
    "sin: own argument": ("sin", lambda y: Partial(call("cos", y))),
    "atan: sign within": ("atan", lambda y: Partial(over=1.0 - y.arguments[0] * y.arguments[0])),
    "tanh: as sigmoid": ("tanh", lambda y: Partial(call("sigmoid_slope", y.arguments[0]))),
    "sigmoid_slope: factor": ("sigmoid_slope", lambda y: Partial(y * call("tanh", y.arguments[0]), coefficient=-1.0)),
    "exp_neg_square: dropped x": ("exp_neg_square", lambda y: Partial(y, coefficient=-2.0)),
    "cosh: sign": ("cosh", lambda y: Partial(call("sinh", y.arguments[0]), coefficient=-1.0)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_wrong_rule_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, rule = MUTANTS[mutant]
    monkeypatch.setitem(RULES, operation, (rule,))
    assert faults(call(operation, number("x")), SYMPY[operation](X), 0.6, 0.0)
