"""Expressions as text: readable, with few brackets, and read back to the same expression."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.points import same, value_at
from tests.kernels.strategies import Drawn, formulas, values

from gradwright.errors import UsageError
from gradwright.kernels.formula.expression import Expression, call, condition, constant, neg, number, where
from gradwright.kernels.formula.operations import ARITY
from gradwright.kernels.formula.program import Program
from gradwright.kernels.formula.reading import read
from gradwright.kernels.formula.spelling import spelled, spelled_with_names

x, y, z = number("x"), number("y"), number("z")


@given(formulas(max_depth=6))
@settings(max_examples=300, deadline=None)
def test_what_is_spelled_is_read_back_to_the_same_expression(formula: Drawn):
    text = spelled(formula.output)
    assert read(text, may_be_constant=True).output.key == formula.output.key


# As a reader would write them: not a bracket more.
PLAIN = [
    *("x - (y - z)", "x - y - z", "x/(y*z)", "x/y*z", "(x + y)*z", "-x**2", "(-x)**2", "x**-y", "x**-2", "(x**y)**z"),
    *("x**y**z", "x**(y + z)", "x**(y*z)", "(-2)**x", "-2**x", "-2*x", "-(2*x)", "-x*y", "-(x + y)", "x - -2", "2 - x"),
    *("where(x > 0, q*x, (q - 1)*x)", "where(x < 0 and y > 1 or not z == 2, x, y)", "exp(x + y)", "min(x, y)"),
    *("where(x < 0 and (y > 1 or z > 1), x, y)", "where(not (x < 0 and y > 1), x, y) - 1", "where(x == y, 1, 0)"),
    *("clamp(x, 0, 1)", "clamp(x, min=0)", "clamp(x, max=y)", "x*1e-05", "x*100000", "x + inf", "x + -inf", "x*nan"),
    *("log_cosh(x - y)", "x + -0.0*y", "max(x, 0.5)", "x*1e+300"),
]


@pytest.mark.parametrize("text", [text for text in PLAIN if "not (" not in text])
def test_a_text_without_a_bracket_too_many_comes_back_as_it_was(text):
    assert spelled(read(text).output) == text


def test_oracle_a_lost_bracket_is_another_expression():
    for text, without in [
        ("x - (y - z)", "x - y - z"),
        ("(-x)**2", "-x**2"),
        ("-(2*x)", "-2*x"),
        ("(x**y)**z", "x**y**z"),
    ]:
        assert read(text).output.key != read(without).output.key


def test_numbers_are_spelled_to_the_bit():
    for value in (0.1, 1 / 3, math.pi, 5e-324, 1.7976931348623157e308, 2.0**53, -1e22, 123456789012345.0, -0.0):
        assert read(spelled(constant(value) - x)).output.key == (constant(value) - x).key


def test_what_only_derivatives_consist_of_is_readable():
    assert spelled(call("exp_neg_square", x + y)) == "exp(-(x + y)**2)"
    assert spelled(y * call("sech_square", x)) == "y*sech(x)**2"
    assert spelled(y - call("sigmoid_slope", -x)) == "y - sigmoid(-x)*sigmoid(-(-x))"
    assert spelled(call("given", x * y, x, y, y, x)) == "x*y"
    assert spelled(where(condition("m"), x, y)) == "where(m, x, y)"


def test_every_operation_is_spelled():
    operands = [x, y, z]
    for name, count in ARITY.items():
        arguments = operands[: 3 if count < 0 else count]
        if name in ("and", "or", "not", "where"):
            arguments[0] = call("lt", x, y)
        if name in ("and", "or"):
            arguments[1] = call("lt", y, z)
        text = spelled(Expression(name, tuple(arguments)))
        assert not (name.endswith(("slope", "square")) and name in text)
        assert "x" in text


def test_inputs_can_be_given_other_names():
    assert spelled(x * number("_cotangent_0"), {"_cotangent_0": "dy"}) == "x*dy"


def doubled(times: int) -> Expression:
    total = x
    for _ in range(times):
        total = call("exp", total * total)
    return total


def test_a_text_that_sharing_would_blow_up_is_an_error():
    with pytest.raises(UsageError, match="spelled_with_names"):
        spelled(doubled(60))


def test_what_is_shared_gets_a_name():
    assert spelled_with_names({"f": doubled(4), "x": x}) == [
        ("t1", "exp(exp(x*x)*exp(x*x))"),  # exp(x*x) itself is too short to gain from one
        ("t2", "exp(t1*t1)"),
        ("f", "exp(t2*t2)"),
        ("x", "x"),
    ]
    assert spelled_with_names({"f": doubled(60)})[-1] == ("f", "exp(t58*t58)")


def test_a_name_that_an_input_has_is_not_used():
    t1 = number("t1")
    shared = call("exp", t1 * x + t1 / x + call("tanh", x))
    lines = spelled_with_names({"f": shared * shared + call("sin", shared) * call("cos", shared)})
    assert [name for name, _ in lines] == ["t2", "f"]


def test_a_very_long_sum_is_cut_into_lines():
    total = x
    for place in range(9_000):
        total = total + number(f"input_{place}")
    lines = spelled_with_names({"f": total})
    assert len(lines) > 5
    assert max(len(text) for _, text in lines) < 21_000


@given(formulas(max_depth=4), st.data())
@settings(max_examples=60, deadline=None)
def test_the_lines_of_a_derivative_compute_it(formula: Drawn, data: st.DataObject):
    program = Program(formula.inputs, (formula.output,)).and_vjp([True] * len(formula.inputs), [False])
    outputs = {f"output_{place}": output for place, output in enumerate(program.outputs)}
    point = {name: data.draw(values(finite=True), label=name) for name in formula.inputs}
    texts: dict[str, str] = {}
    for name, text in spelled_with_names(outputs, {"_cotangent_0": "c"}):
        texts[name] = re.sub(r"\bt\d+\b", lambda match: f"({texts[match[0]]})", text)
    for name, output in outputs.items():
        readable = read(texts[name].replace("sech(", "1/cosh("), may_be_constant=True).output
        found, truth = value_at(readable, {**point, "c": 0.75}), value_at(output, {**point, "_cotangent_0": 0.75})
        # 1/cosh(x)**2 and sigmoid(x)*sigmoid(-x), as a reader writes them, underflow where ours do not.
        assert same(found, truth, 1e-6) or abs(found - truth) < 1e-100


def test_signs_are_not_doubled():
    assert spelled(neg(call("mul", constant(-2.0), x))) == "-(-2*x)"
    assert spelled(call("neg", constant(-2.0))) == "-(-2)"
