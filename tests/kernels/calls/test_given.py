"""A derivative that the user gives: right ones are taken, wrong ones are refused."""

import pytest
from tests.laws import Laws

from gradwright.errors import GradientError, UsageError
from gradwright.kernels.calls.given import given_derivative
from gradwright.kernels.formula.derivatives import pulled_back
from gradwright.kernels.formula.expression import constant
from gradwright.kernels.formula.reading import read, read_function

PSEUDO_HUBER = "d**2 * (sqrt(1 + (e/d)**2) - 1)"
BARRON = "abs(2 - a)/a * (((x/c)**2/abs(2 - a) + 1)**(a/2) - 1)"
HUBER = "where(abs(e) <= d, 0.5*e*e, d*(abs(e) - 0.5*d))"
MISH = "x*tanh(softplus(x))"
# Formula, input, derivative: among them those that cancel, that overflow where the formula does not care, and that have
# a convention of their own at kinks.
RIGHT = [
    ("tanh(x)", "x", "1 - tanh(x)**2"),
    ("sigmoid(x)", "x", "sigmoid(x)*(1 - sigmoid(x))"),
    ("softplus(x)", "x", "1/(1 + exp(-x))"),
    ("where(e > 0, q*e, (q - 1)*e)", "e", "where(e >= 0, q, q - 1)"),
    ("where(e > 0, q*e, (q - 1)*e)", "q", "e"),
    ("abs(x)", "x", "where(x >= 0, 1, -1)"),
    ("max(x, y)", "x", "where(x > y, 1, 0)"),
    ("max(x, y)", "y", "where(y >= x, 1, 0)"),
    ("clamp(x, -1, 1)", "x", "where(abs(x) < 1, 1, 0)"),
    ("sqrt(x)", "x", "0.5/sqrt(x)"),
    ("x**n", "x", "n*x**(n - 1)"),
    ("x**n", "n", "x**n*log(x)"),
    ("log(cosh(x))", "x", "tanh(x)"),
    (PSEUDO_HUBER, "e", "e/sqrt(1 + (e/d)**2)"),
    ("erf(x)", "x", "2/sqrt(pi)*exp(-x*x)"),
    ("max(x, 0) - x*t + log1p(exp(-abs(x)))", "x", "sigmoid(x) - t"),
    ("-(t*log(p) + (1 - t)*log(1 - p))", "p", "(p - t)/(p*(1 - p))"),
    ("asin(x)", "x", "1/sqrt(1 - x*x)"),
    ("tan(x)", "x", "1/cos(x)**2"),
    (MISH, "x", "tanh(softplus(x)) + x*sigmoid(x)*(1 - tanh(softplus(x))**2)"),
    (BARRON, "x", "x/c**2*((x/c)**2/abs(2 - a) + 1)**(a/2 - 1)"),
    ("x", "x", "1"),
]
# How a derivative is wrong: its sign, a factor, a term too many or too few.
WRONG = {
    "sign": "-({slope})",
    "factor": "2*({slope})",
    "small factor": "1.0001*({slope})",
    "constant": "({slope}) + 1e-4",
    "term": "({slope}) + 0.01*{name}",
    "only one sign": "where({name} < 0.3, {slope}, 0.5*({slope}))",
    "only the other sign": "where({name} > 0.3, {slope}, 0.5*({slope}))",
}
laws = Laws[tuple[str, str, str]]()


@pytest.mark.parametrize("given", RIGHT, ids=[f"{formula} by {name}" for formula, name, _ in RIGHT])
def test_a_right_derivative_is_taken_and_no_wrong_one(given):
    laws.hold(given)


@laws
def a_right_derivative_is_taken(given):
    formula, name, slope = given
    assert given_derivative(read(formula), {name: slope}).operation == "given"


def one_that_is_wrong(kind):
    def is_refused(given):
        formula, name, slope = given
        with pytest.raises(GradientError, match=f"given for `{name}` is not that of the formula"):
            given_derivative(read(formula), {name: WRONG[kind].format(slope=slope, name=name)})

    is_refused.__name__ = f"one that is wrong: {kind}"
    return is_refused


for kind in WRONG:
    laws(one_that_is_wrong(kind))


@pytest.mark.parametrize(
    ("formula", "name", "slope"),
    [
        ("abs(x)", "x", "where(x > 0, 1, 0)"),
        ("max(x, y)*z", "z", "x"),
        ("where(x > 3, x*x, x)", "x", "1"),
        ("where(abs(x) > 200, x*x, x)", "x", "1"),
        ("where(x > 1 and x < 1.01, x*x, x)", "x", "1"),
        ("where(x == y, 2*x, x) + z", "z", "where(x > y, 1, 2)"),
        ("sin(x*y)", "x", "cos(x*y)"),
        ("x*tanh(softplus(x))", "x", "tanh(softplus(x)) + x*sigmoid(x)"),
        ("softplus(x)", "x", "exp(x)/(1 + exp(x))"),
        ("x**n", "x", "where(x > 0, n*x**(n - 1), 0)"),
        ("exp(-x*x)*y", "y", "where(x > 0, exp(-x*x), 0)"),
    ],
)
def test_a_derivative_right_in_one_place_only_is_refused(formula, name, slope):
    with pytest.raises(GradientError):
        given_derivative(read(formula), {name: slope})


def test_the_error_names_the_input_a_point_and_both_values():
    with pytest.raises(GradientError) as raised:
        given_derivative(read("q * x**2"), {"x": "q * x"})
    message = str(raised.value)
    assert "given for `x`" in message
    assert "at q = 1, x = 1 it is 1, and the formula's is 2" in message
    assert "  where  q * x\n" in message
    for other in ("gw.straight_through", "gw.surrogate", "gw.custom_gradient"):
        assert other in message


def test_a_condition_says_where_a_derivative_holds():
    with pytest.raises(GradientError, match="at e = "):
        given_derivative(read(HUBER), {"e": "clamp(e, -d, d)"})
    given_derivative(read(HUBER), {"e": "clamp(e, -d, d)"}, assuming="d > 0")
    with pytest.raises(GradientError):
        given_derivative(read(HUBER), {"e": "clamp(e, -d, 0.5*d)"}, assuming="d > 0")


def test_several_derivatives_are_given_at_once_and_each_is_checked():
    formula = read("x*sin(y)")
    given_derivative(formula, {"x": "sin(y)", "y": "x*cos(y)"})
    with pytest.raises(GradientError, match="given for `y`"):
        given_derivative(formula, {"x": "sin(y)", "y": "x*sin(y)"})


def test_a_derivative_may_be_a_python_function():
    def slope(x, q):
        return 2 * q * x

    given = given_derivative(read_function(lambda q, x: q * x**2), {"x": slope})
    (found,) = pulled_back((given,), (constant(1.0),), ("x",))
    assert found.key == read_function(slope).output.key


def test_what_is_given_is_what_a_gradient_consists_of():
    given = given_derivative(read("q*log(1 + exp(x))"), {"x": "q*sigmoid(x)"})
    by_x, by_q = pulled_back((given,), (constant(1.0),), ("x", "q"))
    assert by_x.key == read("q*sigmoid(x)").output.key
    assert by_q.key == read("log(1 + exp(x))").output.key, "ours, as none was given"
    (second,) = pulled_back((by_x,), (constant(1.0),), ("q",))
    assert second.key == read("sigmoid(x)").output.key, "the derivative of what was given"


@pytest.mark.parametrize(
    ("slopes", "assuming", "what"),
    [
        ({"delta": "x"}, None, "given for `delta`, which is no input"),
        ({"x": "delta_*x"}, None, "is made of `delta_`, which is no input"),
        ({"x": "x %"}, None, "no expression"),
        ({"x": "d"}, "dd > 0", "is made of `dd`, which is no input"),
        ({"x": "d"}, "d", "is no condition"),
    ],
)
def test_what_can_not_be_given_is_an_error(slopes, assuming, what):
    with pytest.raises(UsageError, match=what):
        given_derivative(read("d*x"), slopes, assuming=assuming)


def test_a_name_close_by_is_proposed():
    with pytest.raises(UsageError, match="did you mean delta"):
        given_derivative(read("delta*x"), {"delt": "x"})


def test_a_derivative_that_can_be_compared_nowhere_is_an_error():
    with pytest.raises(UsageError, match="can't be checked"):
        given_derivative(read("log(x - 1e200)"), {"x": "1/(x - 1e200)"})
    with pytest.raises(UsageError, match="can't be checked"):
        given_derivative(read("x*y"), {"x": "y"}, assuming="x > y and y > x")


def test_the_check_leaves_torchs_generator_alone():
    import torch

    before = torch.get_rng_state()
    given_derivative(read("sin(x)"), {"x": "cos(x)"})
    assert torch.equal(torch.get_rng_state(), before)
