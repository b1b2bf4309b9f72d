"""vjp and jvp of programs: the laws that hold between them, and how much they compute."""

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.kernels.formula.evaluated import Lazily, numbers, size
from tests.kernels.strategies import Drawn, formulas, values
from torch import Tensor

from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties
from gradwright.kernels.formula.expression import Expression, call, condition, constant, in_order, number, where
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read
from gradwright.kernels.formula.rules import RULES, Partial

X, Y = number("x"), number("y")
DRAWN = formulas(inputs="xy", max_depth=3)
COTANGENTS = st.tuples(*[st.floats(-4, 4, width=32)] * 4)
LAWS = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def two_outputs(a: Drawn, b: Drawn) -> Program:
    return Program(("x", "y"), (a.output, b.output * X))


def floats(*some: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64) for value in some]


def both_products(program: Program, point: list[Tensor], c: list[Tensor], t: list[Tensor]) -> tuple[Tensor, Tensor]:
    """<c, J t> and <J^T c, t>."""
    forward = numbers(program.jvp([True, True]), *point, *t)
    back = numbers(program.vjp([True, True], [False, False]), *point, *c)
    return sum(a * b for a, b in zip(c, forward, strict=True)), sum(a * b for a, b in zip(back, t, strict=True))  # type: ignore[return-value]


def agree(a: Tensor, b: Tensor, scale: float) -> bool:
    return math.isclose(a.item(), b.item(), rel_tol=1e-9, abs_tol=1e-9 * scale)


def scale_of(program: Program, point: list[Tensor]) -> float | None:
    """What may cancel on the way; None, if something is infinite."""
    largest = 1.0
    for output in program.outputs:
        lazy = Lazily(output, dict(zip(program.inputs, (value.item() for value in point), strict=True)))
        lazy.gradients()
        if not lazy.is_finite or lazy.largest > 1e100:
            return None
        largest = max(largest, lazy.largest)
    return 100 * largest


@LAWS
@given(DRAWN, DRAWN, st.tuples(values(finite=True), values(finite=True)), COTANGENTS)
def test_a_vjp_is_the_transpose_of_the_jvp(a: Drawn, b: Drawn, at: tuple[float, ...], ct: tuple[float, ...]) -> None:
    program, point = two_outputs(a, b), floats(*at)
    scale = scale_of(program, point)
    assume(scale is not None)
    assert agree(*both_products(program, point, floats(*ct[:2]), floats(*ct[2:])), scale)


@LAWS
@given(DRAWN, DRAWN, st.tuples(values(finite=True), values(finite=True)), COTANGENTS)
def test_a_vjp_is_linear_in_the_cotangent(a: Drawn, b: Drawn, at: tuple[float, ...], c: tuple[float, ...]) -> None:
    program, point = two_outputs(a, b), floats(*at)
    scale, back = scale_of(program, point), program.vjp([True, True], [False, False])
    assume(scale is not None)
    one, other = numbers(back, *point, *floats(*c[:2])), numbers(back, *point, *floats(*c[2:]))
    both = numbers(back, *point, *floats(2 * c[0] - 3 * c[2], 2 * c[1] - 3 * c[3]))
    assert all(agree(2 * p - 3 * q, r, 5 * scale) for p, q, r in zip(one, other, both, strict=True))


@LAWS
@given(DRAWN, st.tuples(values(finite=True), values(finite=True)), COTANGENTS)
def test_the_jvp_of_a_vjp_is_the_vjp_of_the_vjp(a: Drawn, at: tuple[float, ...], c: tuple[float, ...]) -> None:
    """A Hessian is symmetric; at kinks both follow the same convention."""
    program, point, t = Program(("x", "y"), (a.output,)), floats(*at), floats(*c[:2])
    back = program.vjp([True, True], [False])
    (one,) = floats(1.0)
    scale = scale_of(Program(back.inputs, back.outputs), [*point, one])
    assume(scale is not None)
    along = numbers(back.jvp([True, True, False]), *point, one, *t)
    again = numbers(back.vjp([True, True, False], [False, False]), *point, one, *t)
    assert all(agree(p, q, scale) for p, q in zip(along, again, strict=True))


def test_a_jvp_that_is_no_transpose_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that gives another partial derivative each time it is asked."""
    coefficients = iter((1.0, 2.0))
    monkeypatch.setitem(RULES, "exp", (lambda y: Partial(y, coefficient=next(coefficients)),))
    program, point = Program(("x", "y"), (call("exp", X), Y)), floats(0.5, 0.5)
    assert not agree(*both_products(program, point, floats(1, 1), floats(1, 1)), 1.0)


def test_a_factor_multiplies_the_cotangent_of_its_output_alone() -> None:
    program = Program(("x",), (X * X, call("exp", X)))
    back = program.vjp([True], [False, True])
    (result,) = numbers(back, torch.tensor(0.0), 5.0, 7.0, 0.5)
    assert back.inputs == ("x", "_cotangent_0", "_cotangent_1", "_factor_0") and result.item() == 3.5


def test_value_and_gradient_in_one_program() -> None:
    program = Program(("x", "y"), (X * Y,))
    assert [result.item() for result in numbers(program.and_vjp([False, True], [False]), *floats(2, 3), 1.0)] == [6, 2]


def test_an_input_that_nothing_depends_on_has_the_derivative_zero() -> None:
    program = Program(("x", "y"), (call("exp", X),))
    assert program.vjp([True, True], [False]).outputs[1].is_constant(0.0)
    assert program.jvp([False, True]).outputs[0].is_constant(0.0)


def test_derivatives_of_derivatives_have_names_of_their_own() -> None:
    program = Program(("x",), (X * X * X,))
    twice = program.vjp([True], [True]).vjp([True, True, True], [True]).jvp([True] * 5)
    assert len(set(twice.inputs)) == len(twice.inputs) == 10


def test_masks_have_no_derivative() -> None:
    program = Program(("m", "x"), (where(condition("m"), X, constant(0.0)),), frozenset({"m"}))
    back = program.vjp([True, True], [False])
    assert back.outputs[0].is_constant(0.0) and back.conditions == {"m"}


def test_slopes_that_are_given_are_those_multiplied_by() -> None:
    straight_through = call("given", call("sign", X), X, Y)
    program = Program(("x", "y"), (straight_through * 3.0,))
    assert [result.item() for result in numbers(program.vjp([True, True], [False]), *floats(2, 5), 1.0)] == [15, 0]
    assert numbers(program.jvp([True, False]), *floats(2, 5), 1.0)[0].item() == 15


def test_keys_are_the_same_in_every_process() -> None:
    code = (
        "from gradwright.kernels.formula.expression import number, call\n"
        "from gradwright.kernels.formula.program import Program\n"
        "x = number('x')\n"
        "print(Program(('x',), (call('exp', x) * 2.0 + x,)).vjp([True], [False]).key)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == Program(("x",), (call("exp", X) * 2.0 + X,)).vjp([True], [False]).key


UNARY = ("tanh", "softplus", "sigmoid", "sin", "erf", "expm1", "atan")
# How a formula is made of one that is made the same way, and so on.
NESTED: dict[str, Callable[[Expression, int], Expression]] = {
    "functions": lambda f, k: call(UNARY[k % len(UNARY)], f),
    "used three times": lambda f, k: f * f + f,
    "products": lambda f, k: f * call("tanh", f) + Y * f,
    "powers": lambda f, k: call("pow", f, Y),
    "quotients": lambda f, k: f / (f * f + 1.0),
    "branches": lambda f, k: where(call("gt", X, constant(float(k))), X * float(k + 2), call("sin", f)),
    "both branches": lambda f, k: where(call("gt", f, constant(float(k))), call("sin", f), call("exp", f)),
    "maxima": lambda f, k: call("maximum", f, call("sin", X * float(k + 2))) + f,
    "clamps": lambda f, k: call("clamp", call("sin", f), Y, f),
}


def sizes(step: Callable[[Expression, int], Expression], depth: int) -> list[int]:
    """Operations of the value, the gradient, the Hessian's vjp and its jvp."""
    formula: Expression = X
    for k in range(depth):
        formula = step(formula, k)
    program = Program(("x", "y"), (formula,))
    back = program.vjp([True, True], [False])
    twice = back.vjp([True, True, False], [False, False])
    return [size(each.outputs) for each in (program, back, twice, back.jvp([True, True, False]))]


@pytest.mark.parametrize("shares_ties", [False, True])
@pytest.mark.parametrize("nested", NESTED)
def test_derivatives_of_fifty_levels_are_twice_as_long_as_of_twenty_five(
    nested: str, shares_ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "find_ties", lambda: Ties(not shares_ties, shares_ties))
    half, whole = sizes(NESTED[nested], 25), sizes(NESTED[nested], 50)
    assert all(more <= 2.1 * less for less, more in zip(half, whole, strict=True))
    assert whole[1] <= (20 if shares_ties else 16) * whole[0] and whole[2] <= 5 * whole[1]


# The formulas that are benchmarked: operations of value and gradient together, the same of value, gradient and
# Hessian-vector product, and the arguments whose exponential is needed.
LOSSES: dict[str, tuple[str, int, int, int]] = {
    "square": ("(x - y)**2", 4, 6, 0),
    "Huber": ("where(abs(x - y) <= 1, 0.5*(x - y)**2, abs(x - y) - 0.5)", 10, 12, 0),
    "pseudo-Huber": ("sqrt(1 + (x - y)**2) - 1", 7, 14, 0),
    "log-cosh": ("log_cosh(x - y)", 18, 21, 2),
    "quantile": ("where(x > 0, y*x, (y - 1)*x)", 7, 7, 0),
    "quantile by max": ("max(y*x, (y - 1)*x)", 14, 14, 0),
    "BCE with logits": ("softplus(x) - x*y", 6, 9, 1),
    "focal": ("y * sigmoid(-x)**2 * softplus(-x) + (1 - y) * sigmoid(x)**2 * softplus(x)", 29, 76, 1),
    "GELU": ("0.5*x*(1 + erf(x/sqrt(2)))", 11, 22, 1),
    "mish": ("x*tanh(softplus(x))", 9, 24, 2),
    "swish": ("x*sigmoid(x)", 6, 15, 1),
    "Barron": ("abs(y - 2)/y*((x**2/abs(y - 2) + 1)**(y/2) - 1)", 21, 39, 0),
    "L1": ("abs(x - y)", 4, 4, 0),
    "ReLU": ("relu(x)", 3, 3, 0),
}
EXPONENTIALS = {"exp": 1, "expm1": 1, "sigmoid": 1, "sigmoid_slope": 1, "softplus": 1, "tanh": 2, "sech_square": 2}


def exponentials(program: Program) -> set[tuple[bytes, int]]:
    """exp(-|x|) serves sigmoid, softplus and their slopes, exp(-2|x|) tanh and sech²; a sign of x makes no other."""
    found = set()
    for node in in_order(program.outputs):
        if node.operation in EXPONENTIALS:
            argument = node.arguments[0]
            while argument.operation in ("neg", "abs"):
                argument = argument.arguments[0]
            found.add((argument.key, EXPONENTIALS[node.operation]))
        elif node.operation in ("exp_neg_square", "cosh", "sinh"):
            found.add((node.key, 0))
    return found


@pytest.mark.parametrize("loss", LOSSES)
def test_value_and_derivatives_of_a_loss_compute_no_more_than(loss: str) -> None:
    text, most, most_twice, exps = LOSSES[loss]
    program = Program(("x", "y"), (read(text).output,))
    once = program.and_vjp([True, False], [False])
    hessian = program.vjp([True, False], [False]).vjp([True, False, False], [False])
    assert size(once.outputs) <= most
    assert size((*once.outputs, *hessian.outputs)) <= most_twice
    assert len(exponentials(once)) <= exps


@pytest.mark.parametrize("text", ["0.5*x*x", "x*0.5*x", "0.5*x**2", "x**2/2", "x*(0.5*x)"])
def test_half_a_square_has_the_derivative_x(text: str) -> None:
    (output,) = Program(("x",), (read(text).output,)).vjp([True], [False]).outputs
    assert output.key == (number("_cotangent_0") * X).key


def test_constants_beyond_float32_meet_the_slope_in_time() -> None:
    """1e20 * 1e20 is infinite in float32; 1e20 * (1e20 * 1e-25) is not."""
    program = Program(("x",), (read("1e20*(1e20*exp(x))").output,)).vjp([True], [False])
    (result,) = numbers(program, torch.tensor(-57.0), 1.0)
    torch.testing.assert_close(result, torch.tensor(1e40 * math.exp(-57.0)))


def test_huber_compares_once() -> None:
    program = Program(("x", "y"), (read(LOSSES["Huber"][0]).output,)).and_vjp([True, True], [False])
    operations = [node.operation for node in in_order(program.outputs)]
    assert operations.count("le") == 1 and operations.count("where") == 2 and not {"and", "or", "not"} & {*operations}
