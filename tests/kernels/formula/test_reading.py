"""Formulas as text: what is understood, what it means, and what the errors say."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.points import same, value_at
from tests.kernels.strategies import OPERATIONS, UNARY, Drawn, formulas, values

from gradwright.kernels.formula.expression import Expression, call, constant, number, sub, where
from gradwright.kernels.formula.functions import FUNCTIONS
from gradwright.kernels.formula.reading import read

x, y, z = number("x"), number("y"), number("z")
zero, one = constant(0.0), constant(1.0)


def indicator(condition: Expression) -> Expression:
    return where(condition, one, zero)


MEANINGS: list[tuple[str, Expression]] = [
    ("x + y - z", (x + y) - z),
    ("x - (y - z)", x - (y - z)),
    ("x / y * z", (x / y) * z),
    ("-x**2", -call("pow", x, constant(2.0))),
    ("x**-y", call("pow", x, -y)),
    ("x**y**z", call("pow", x, call("pow", y, z))),
    ("+x", x),
    ("2.5e-3 * x", 0.0025 * x),
    ("0x10 + x", 16.0 + x),
    ("1_000 * x", 1000.0 * x),
    ("x < y", indicator(call("lt", x, y))),
    ("x >= y", indicator(call("ge", x, y))),
    ("0 < x < 1", indicator(call("and", call("lt", zero, x), call("lt", x, one)))),
    ("x == y != z", indicator(call("and", call("eq", x, y), call("ne", y, z)))),
    ("not x > 0", indicator(call("not", call("gt", x, zero)))),
    (
        "x > 0 and y > 0 or z > 0",
        indicator(call("or", call("and", *(call("gt", v, zero) for v in (x, y))), call("gt", z, zero))),
    ),
    ("(x > 0) * y", indicator(call("gt", x, zero)) * y),
    ("x if y > 0 else z", where(call("gt", y, zero), x, z)),
    ("where(y > 0, x, z)", where(call("gt", y, zero), x, z)),
    ("where(where(x > 0, y > 0, z > 0), x, y)", read("x if (x > 0 and y > 0 or not x > 0 and z > 0) else y").output),
    ("min(x, y, z)", call("minimum", call("minimum", x, y), z)),
    ("maximum(x, y)", call("maximum", x, y)),
    ("clamp(x, 0, 1)", call("clamp", x, zero, one)),
    ("clamp(x, min=0)", call("clamp", x, zero, constant(math.inf))),
    ("clamp(x, max=y)", call("clamp", x, constant(-math.inf), y)),
    ("clamp(x, max=1, min=0)", call("clamp", x, zero, one)),
    ("clamp(x, 0, max=1)", call("clamp", x, zero, one)),
    ("pow(x, y)", call("pow", x, y)),
    ("square(x)", call("pow", x, constant(2.0))),
    ("relu(x)", where(call("le", x, zero), zero, x)),
    ("logsigmoid(x)", -call("softplus", -x)),
    ("pi * x", math.pi * x),
    ("min(x, inf)", call("minimum", x, constant(math.inf))),
    ("where(x < 0, nan, x)", where(call("lt", x, zero), constant(math.nan), x)),
    ("log(2) * x", math.log(2) * x),
    ("2**0.5 * x", math.sqrt(2) * x),
    ("x * log(0)", x * call("log", zero)),
    ("where(1 < 2, x, y)", x),
    ("where(True, x, y)", x),
    ("x if 2 < 1 or x > 0 else y", where(call("gt", x, zero), x, y)),
    ("x + True", x + 1.0),
    ("x * (not False)", x),
    ("  x +\n  y  # a comment", x + y),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS, ids=[text.replace("\n", " ") for text, _ in MEANINGS])
def test_a_text_means_what_python_means_by_it(text, meaning):
    assert read(text).output.key == meaning.key


def test_every_function_is_read_and_is_torchs():
    theirs: dict[str, Callable[..., torch.Tensor]] = {
        name: getattr(torch, name, None) or getattr(torch.nn.functional, name.replace("log_", "log"))
        for name in FUNCTIONS
        if name != "log_cosh"
    }
    theirs["log_cosh"] = lambda x: x.cosh().log()
    a, b, c = 0.3, 0.7, 0.5
    for name, function in FUNCTIONS.items():
        if function.chooses:
            continue
        count = len(function.parameters)
        text = f"{name}({', '.join('xyz'[:count])})"
        truth = theirs[name](*(torch.tensor(value, dtype=torch.float64) for value in (a, b, c)[:count]))
        assert same(value_at(read(text).output, dict(zip("xyz"[:count], (a, b, c), strict=False))), float(truth)), text


def test_inputs_come_in_the_order_of_their_first_appearance():
    assert read("where(e > 0, q*e, (q - 1)*e)").inputs == ("e", "q")
    assert read("b if c > a else d").inputs == ("b", "c", "a", "d")
    assert read("where(False, a, b)").inputs == ("a", "b")


def test_e_is_an_input_and_no_constant():
    assert read("e * 2").inputs == ("e",)


def test_a_name_is_read_as_python_normalises_it():
    assert read("ℯ + e").output.key == read("e + e").output.key


PYTHON: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in ("minimum", "maximum", "clamp")},
    **{name: getattr(torch, name) for name in UNARY if hasattr(torch, name) and name not in ("square", "relu")},
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "square": lambda x: x**2.0,
    "relu": lambda x: torch.relu(x),
    "silu": lambda x: x * torch.sigmoid(x),
    "log_sigmoid": lambda x: -torch.logaddexp(-x, torch.zeros_like(x)),
    "rsqrt": lambda x: 1.0 / torch.sqrt(x),
}


def python_value(text: str, point: dict[str, float]) -> float:
    """What Python makes of a text whose conditions are single bools: the truth to which a reading is held."""

    def tensor(value: float | torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(value, dtype=torch.float64)

    names: dict[str, Callable[..., Any]] = {name: lambda *a, f=f: f(*map(tensor, a)) for name, f in PYTHON.items()}
    names["where"] = lambda condition, a, b: a if condition else b
    numbers = {name: tensor(value) for name, value in point.items()}
    names["number"] = tensor  # 1.0 / 0.0 is no error
    text = re.sub(r"(?<![\w.])(\d+\.\d+)(?![\w.])", r"number(\1)", text)
    return float(eval(text, {"__builtins__": {}}, {**names, **numbers}))


WITHOUT_LOG_COSH = [name for name in OPERATIONS if name not in ("log_cosh", "pow")]


@given(formulas(operations=WITHOUT_LOG_COSH), st.data())
@settings(max_examples=150, deadline=None)
def test_a_random_formula_has_pythons_value(formula: Drawn, data: st.DataObject):
    point = {name: data.draw(values(finite=True), label=name) for name in formula.inputs}
    output = read(formula.text).output
    # math.cos(1.0) and torch.cos(1.0) may differ in their last bit, and a comparison with it: not so next to it.
    points = [point, {name: value * (1 + 1e-9) for name, value in point.items()}]
    assert any(same(value_at(output, at), python_value(formula.text, at), 1e-6) for at in points)


@pytest.mark.parametrize(
    "planted",
    [sub(y, x), x - y * y, call("minimum", x, y), -(x - y)],
    ids=("minus", "minus a square", "smaller", "negated"),
)
def test_pythons_value_tells_a_wrong_reading(planted):
    point = {"x": 0.25, "y": -1.5}
    assert same(value_at(read("x - y").output, point), python_value("x - y", point))
    assert not same(value_at(planted, point), python_value("x - y", point))


@given(formulas(max_depth=5))
@settings(max_examples=150, deadline=None)
def test_a_random_formula_is_read_as_it_was_made(formula: Drawn):
    assert read(formula.text).output.key == formula.output.key
    assert read(formula.text).inputs == formula.inputs
