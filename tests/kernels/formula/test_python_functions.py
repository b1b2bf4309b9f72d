"""Python functions as formulas: held to what Python itself computes when it runs them."""

import math
import threading
import warnings
from math import exp as g

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from tests.kernels.points import same, value_at
from tests.kernels.strategies import values

from gradwright.kernels.formula.expression import add, call, constant, number, sub, where
from gradwright.kernels.formula.reading import Formula, read, read_function

SCALE, IS_SHARP, COUNT = 0.75, True, 3
INFINITE = math.inf


def square(x):
    return x * x


def scaled(x, by=SCALE, *, shift=0.0):
    """A docstring, and defaults."""
    return by * x + shift


def early_returns(x, y):
    if x > 1:
        if y > 1:
            return 1.0
        z = 2.0
    elif x < -1:
        return -x
    else:
        z = 3.0
    if z * y > 4:
        return z
    return y * z


def reassigned(x, y):
    a = b = x + y
    a, b = b * 2, a * 3
    a -= y
    b **= 2
    c: float = a / (1 + b)
    d: float  # noqa: F842
    if c > y:
        c = y
    else:
        c *= 2
        a += 1
    pass  # noqa: PIE790
    return a + c


def conditions(x, y):
    inside = 0 < x < 1
    if y > 0:
        inside = not inside and y < 2
    far = x > 2 or (y > 2 and not x == y)  # noqa: SIM201
    return (2 if inside else 3) * x + far


def modules(x, y):
    return math.tanh(x) + math.pi * g(y / 10) + abs(x) * SCALE - min(x, y, 1) + max(x, 0.5) + math.erf(x) + pow(x, 2)


def called(x, y):
    return square(x) - scaled(y) + scaled(x, 2) * scaled(shift=y, x=x)


def a_chain(x, y):
    if x > 1:
        return 1
    if x > 0.5:
        return 2 * y
    if y > 1:
        y = 1
    if x > 0:
        return 3 * y
    return 4 * x


def settled_when_read(x, y):
    if IS_SHARP:
        return x * COUNT
    return undefined_anywhere(y)  # type: ignore[name-defined]  # noqa: F821


def ternaries(x, y):
    return (x if x > y else y if y > 0 else -y) * (1 if True else x)


def with_infinity(x, y):
    return x if abs(x) < INFINITE else y


RUN = [early_returns, reassigned, conditions, modules, called, a_chain, settled_when_read, ternaries, with_infinity]


@pytest.mark.parametrize("function", RUN, ids=lambda function: function.__name__)
@given(x=values(finite=True).filter(lambda v: abs(v) < 20), y=values(finite=True).filter(lambda v: abs(v) < 20))
@settings(max_examples=80, deadline=None)
def test_a_function_has_the_value_that_python_computes(function, x, y):
    formula = read_function(function)
    assert formula.inputs == ("x", "y")
    assert same(value_at(formula.output, {"x": x, "y": y}), float(function(x, y)), 1e-9)


def test_oracle_a_function_read_wrongly_is_told():
    point = {"x": 0.75, "y": 1.25}
    truth = float(early_returns(**point))
    assert same(value_at(read_function(early_returns).output, point), truth)
    for wrong in (a_chain, reassigned, conditions):
        assert not same(value_at(read_function(wrong).output, point), truth)


x, y = number("x"), number("y")
relu = where(call("le", x, constant(0.0)), constant(0.0), x)
TORCH = [
    (lambda x: torch.exp(x), call("exp", x)),
    (lambda x: torch.special.expit(x), call("sigmoid", x)),
    (lambda x: F.softplus(x), call("softplus", x)),
    (lambda x: F.relu(x), relu),
    (lambda x: torch.relu(x), relu),
    (lambda x: torch.nn.functional.silu(x), x * call("sigmoid", x)),
    (lambda x: F.logsigmoid(x), -call("softplus", -x)),
    (lambda x: torch.clamp(x, min=0), call("clamp", x, constant(0.0), constant(math.inf))),
    (lambda x: torch.clip(x, 0, 1), call("clamp", x, constant(0.0), constant(1.0))),
    (lambda x, y: torch.where(x > y, x, y), where(call("gt", x, y), x, y)),
    (lambda x, y: torch.maximum(x, y), call("maximum", x, y)),
    (lambda x, y: torch.max(x, y), call("maximum", x, y)),
    (lambda x, y: torch.pow(x, y), call("pow", x, y)),
    (lambda x: torch.arctan(x), call("atan", x)),
    (lambda x: torch.pi * x, math.pi * x),
    (lambda x: math.fabs(x), call("abs", x)),
]


@pytest.mark.parametrize(("function", "meaning"), TORCH, ids=[str(place) for place in range(len(TORCH))])
def test_functions_of_torch_are_those_of_formulas(function, meaning):
    assert read_function(function).output.key == meaning.key


def test_functions_of_numpy_are_those_of_formulas():
    import numpy as np

    formula = read_function(lambda x, y: np.where(x > 0, np.exp(x), np.clip(x, y, 1)) + np.pi)
    assert formula.output.key == read("where(x > 0, exp(x), clamp(x, y, 1)) + pi").output.key


def test_a_function_is_recognised_by_what_its_name_is_bound_to():
    exp = math.log
    assert read_function(lambda x: exp(x)).output.key == call("log", x).key


def test_several_lambdas_on_one_line_are_told_apart():
    several = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: (lambda z: z)(x)]
    assert read_function(several[0]).output.key == add(x, y).key
    assert read_function(several[1]).output.key == sub(x, y).key
    one, other = (lambda x: x + 1.0), (lambda x: x + 1.0)
    assert read_function(one).output.key == read_function(other).output.key


def test_a_lambda_over_several_lines_is_read():
    formula = read_function(
        lambda x, y: (
            x * y  # the product
            + (y if x > 0 else 1)
        )
    )
    assert formula.output.key == read("x * y + (y if x > 0 else 1)").output.key
    assert formula.text.startswith("lambda x, y: (\n    x * y  # the product")


def test_a_decorated_function_is_read_as_it_stands():
    def same_function(function):
        return function

    @same_function
    @same_function
    def inner(x):
        return x * 2

    assert read_function(inner).output.key == (x * 2.0).key
    assert read_function(inner).text == "def inner(x):\n    return x * 2"


def test_parameters_are_inputs_and_their_defaults_are_the_inputs():
    formula = read_function(lambda e, /, q=0.5, *, unused=True: q * e)
    assert formula.inputs == ("e", "q", "unused")
    assert formula.defaults == {"q": 0.5, "unused": 1.0}
    assert formula.text == "lambda e, /, q=0.5, *, unused=True: q * e"


def test_numbers_of_outside_are_read_when_the_formula_is_defined():
    def made(factor):
        return lambda x: factor * x

    assert read_function(made(2)).output.key == (2.0 * x).key
    assert read_function(made(3.5)).output.key == (3.5 * x).key
    assert read_function(made(True)).output.key == x.key
    assert read_function(made(torch.pi)).output.key == (math.pi * x).key


def test_a_function_read_again_is_the_same_formula_until_something_it_uses_changes(monkeypatch):
    def made(factor):
        return lambda x: scaled(x) * factor

    first = read_function(made(2))
    assert read_function(made(2)) is first, "another lambda of the same code, and the same number"
    assert read_function(made(2.0)) is not first
    assert read_function(made(3)) is not first
    assert read_function(made(2)) is first
    monkeypatch.setitem(globals(), "scaled", square)
    assert read_function(made(2)).output.key == (x * x * 2.0).key
    monkeypatch.undo()
    monkeypatch.setattr(scaled, "__defaults__", (5.0,))
    assert read_function(made(2)).output.key == read("(5*x + 0) * 2").output.key
    monkeypatch.undo()
    assert read_function(made(2)).output.key == first.output.key


def test_a_function_that_was_read_stays_readable_when_its_file_is_gone(tmp_path, monkeypatch):
    import linecache

    function = loaded(tmp_path, "def f(x):\n    return 2 * x\n")
    formula = read_function(function)
    (tmp_path / "written.py").unlink()
    linecache.clearcache()
    assert read_function(function).output.key == formula.output.key


def loaded(folder, text):
    """The function ``f`` of a module with this text."""
    import importlib.util

    file = folder / "written.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("written", file)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module.f


TEXTS = {
    "an import of the same module": "import torch.nn.functional as F\ndef f(x):\n    return F.softplus(x)\n",
    "a future import": "from __future__ import annotations\ndef f(x: float) -> float:\n    y: int = x\n    return y\n",
    "tabs and a non-ASCII name": "def f(x):\n\tα = 2*x\n\treturn α + x\n",
    "windows line ends": "def f(x):\r\n    y = 2*x\r\n    return y\r\n",
    "a form feed": "a = 1\n\x0c\ndef f(x):\n    return a*x\n",
    "an escape that is none": 's = "\\d"\ndef f(x):\n    return x\n',
    "a class": "class A:\n    def f(self):\n        pass\n    g = lambda x: x\nf = A.g\n",
    "a default that is a lambda": "def f(x, g=0.5, h=(lambda: 2)()):\n    return x*g*h\n",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_functions_are_found_in_files_of_all_kinds(kind, tmp_path):
    function = loaded(tmp_path, TEXTS[kind])
    assert isinstance(read_function(function), Formula)


def test_the_inputs_of_a_function_may_be_unused():
    assert read_function(lambda x, y: x).inputs == ("x", "y")


def test_a_lambda_of_a_doctest_is_read():
    """
    >>> from gradwright.kernels.formula.reading import read_function
    >>> read_function(lambda x, y: x - y).text
    'lambda x, y: x - y'
    """
    import doctest

    test = doctest.DocTestFinder().find(test_a_lambda_of_a_doctest_is_read, "doctested", globs={})[0]
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.summarize(verbose=False) == (0, 2)


def test_functions_are_read_from_several_threads_at_once():
    def made(factor):
        return lambda x: scaled(x) + square(x) * factor

    wrong: list[float] = []

    def reading(first: int) -> None:
        for place in range(200):
            factor = float(first + place % 7)
            formula = read_function(made(factor))
            if formula.output.key != read(f"0.75*x + 0 + x*x*{factor}").output.key:
                wrong.append(factor)

    threads = [threading.Thread(target=reading, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_of_a_notebook_are_read():
    # A notebook parses a cell, compiles its statements one by one, and puts the cell's text into linecache.
    import ast
    import linecache

    text = "import torch.nn.functional as F\ndef g(x):\n    return 2 * x\nf = lambda x: F.softplus(g(x))\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(keepends=True), "<cell 1>")
    names: dict[str, object] = {}
    for statement in ast.parse(text).body:
        exec(compile(ast.Module([statement], []), "<cell 1>", "exec"), names)
    assert read_function(names["f"]).output.key == read("softplus(2*x)").output.key
