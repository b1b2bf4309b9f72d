"""What a Python function must not hold to be a formula: the error names file, line and column, and what to do."""

import functools
import importlib.util
import linecache
import math
import operator
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from gradwright.errors import UsageError
from gradwright.kernels.formula.expression import number
from gradwright.kernels.formula.reading import read_function

TENSOR, SETTINGS, TEXT = torch.ones(3), SimpleNamespace(q=0.5), "text"


def square(x):
    return x * x


def countdown(x):
    return x if x < 0 else countdown(x - 1)


def there(x):
    return and_back(x)


def and_back(x):
    return there(x)


def needs_two(x, y, *, z=TENSOR):
    return x * y


# Function, what is wrong, what to do, and the text under the caret.
REFUSED = [
    (lambda x: x % 2, "`%` is no operator", "the k that is meant", "% 2"),
    (lambda x: x.exp(), "a method, `exp`", "torch.exp(x)", "x.exp()"),
    (lambda x: x.real + 1, "a method, `real`", "torch.exp(x)", "x.real"),
    (lambda x: x(2), "`x` can't be called", "torch.exp(x)", "x(2)"),
    (lambda x: x[0], "an index", "an input of its own", "x[0]"),
    (lambda x: (lambda: x)(), "a lambda", "in its place", "lambda: x)()"),
    (lambda x: sum(x for _ in range(3)), "there is no function `sum`", "functions that there are", "sum("),
    (lambda x: math.factorial(x), "there is no function `factorial`", "", "math.factorial"),
    (lambda x: math.log2(x), "there is no function `log2`", "write log(x) / log(2)", "math.log2"),
    (lambda x: math.log(x, 2), "`math.log` got 2 arguments", "give it 1", "math.log"),
    (lambda x: F.softplus(x, beta=2), "no keyword `beta`", "without names", "beta=2"),
    (lambda x: torch.max(x), "`torch.max` got 1 argument", "2 or more", "torch.max"),
    (lambda x: operator.add(x, 1), "there is no function `add`", "functions that there are", "operator.add"),
    (lambda x: math.nothing(x), "`math.nothing` can't be looked up", "into a name first", "math.nothing"),  # type: ignore[attr-defined]
    (lambda x: x * SETTINGS.q, "`SETTINGS.q` can't be looked up", "q = SETTINGS.q", "SETTINGS.q"),
    (lambda x: x * TENSOR, "of type Tensor", "make it an input", "TENSOR"),
    (lambda x: x * TEXT, "of type str", "use a number", "TEXT"),
    (lambda x: x * math, "`math` is a module", "use a number", "math,"),
    (lambda x: x + square, "`square` is a function", "call it", "square,"),
    (lambda x: x + squre(x), "there is no `squre`", "did you mean square", "squre"),  # type: ignore[name-defined]  # noqa: F821
    (lambda x: where(x > 0, x, 0), "there is no `where`", "from torch import where", "where"),  # type: ignore[name-defined]  # noqa: F821
    (lambda x: square(), "no value for `x`", "give it", "square()"),  # type: ignore[call-arg]
    (lambda x: square(x, x), "gets 2 arguments", "leave some out", "square(x, x)"),  # type: ignore[call-arg]
    (lambda x: square(y=x), "no parameter `y`", "each of them once", "y=x"),  # type: ignore[call-arg]
    (lambda x: square(x, x=x), "two values for `x`", "each of them once", "x=x"),
    (lambda x: square(*x), "a star", "arguments out", "*x"),
    (lambda x: square(**x), "no parameter `**`", "each of them once", "**x"),
    (lambda x: needs_two(x, 1), "the default of `z` is an object of type Tensor", "make it an input", "needs_two"),
    (lambda x: countdown(x), "`countdown` calls itself", "steps out", "countdown(x - 1)"),
    (lambda x: there(x), "`there` calls itself", "steps out", "there(x)"),
    (lambda x: x and 1, "`x` is a number where a condition", "compare it", "x and 1"),
    (lambda x, y=TENSOR: x, "the default of `y` is an object of type Tensor", "make it an input", "y=TENSOR"),
    (lambda x, y=None: x, "the default of `y` is an object of type NoneType", "use a number", "y=None"),
    (lambda *x: 1.0, "any number of arguments", "name each input", "x: 1.0"),
    (lambda x, **y: x, "any number of arguments", "name each input", "y: x"),
    (lambda _x: _x, "`_x`", "call it `x`", "_x: _x"),
    (lambda exp: exp, "`exp`", "another name", "exp: exp"),
    (lambda pi: pi, "`pi`", "another name", "pi: pi"),
    (lambda: 1.0, "no input", "a parameter", "lambda: 1.0"),
    (lambda x: (yield x), "a generator or a coroutine", "plain function", None),
]


@pytest.mark.parametrize(
    ("function", "what", "do", "place"), REFUSED, ids=[f"{place} {case[1]}" for place, case in enumerate(REFUSED)]
)
def test_what_is_not_understood_is_shown_where_it_stands(function, what, do, place):
    with pytest.raises(UsageError) as raised:
        read_function(function)
    message = str(raised.value)
    assert what in message.split("\n")[0]
    assert do in message.split("  do     ")[1]
    if place is not None:
        _, where, shown, below, *_ = message.split("\n")
        assert "test_python_function_errors.py, in " in where
        assert f"column {below.index('^') - 9 + 1}" in where or "…" in shown or shown.startswith(" " * 9)
        assert shown[below.index("^") :].startswith(place)


# The body of a function of x and y; the line within it, and what is said of it.
BODIES = {
    "a loop": ("for i in range(3):\n    x = x * 2\nreturn x", 1, "a loop is no part"),
    "a while loop": ("while x < 3:\n    x = x * 2\nreturn x", 1, "a loop is no part"),
    "an exception": ("if x > 0:\n    raise ValueError\nreturn x", 2, "an exception is no part"),
    "an assertion": ("assert x > 0\nreturn x", 1, "an assertion is no part"),
    "a call for its effect": ("print(x)\nreturn x", 1, "a statement without effect"),
    "an import": ("import math\nreturn x", 1, "an import is no part"),
    "a function within": ("def g(z): return z\nreturn g(x)", 1, "a function is no part"),
    "a global": ("global G\nG = x\nreturn x", 1, "a name of outside"),
    "with": ("with open(x):\n    return x", 1, "this statement is no part"),
    "try": ("try:\n    return x\nexcept ValueError:\n    return y", 1, "this statement is no part"),
    "match": ("match x:\n    case 1:\n        return x\nreturn y", 1, "this statement is no part"),
    "del": ("del y\nreturn x", 1, "this statement is no part"),
    "an item": ("x[0] = 1\nreturn x", 1, "can't be assigned to"),
    "an attribute": ("x.a = 1\nreturn x", 1, "can't be assigned to"),
    "unpacking": ("a, b = x\nreturn a", 1, "a tuple is assigned that does not stand there"),
    "too few": ("a, b, c = x, y\nreturn a", 1, "a tuple is assigned that does not stand there"),
    "a star": ("a, *b = x, y\nreturn a", 1, "can't be assigned to"),
    "no return": ("z = x", 1, "does not return on every way"),
    "a return on one way": ("if x > 0:\n    return x", 1, "does not return on every way"),
    "a return on two of three ways": (
        "if x > 0:\n    return x\nelif y > 0:\n    z = y\nelse:\n    return y",
        1,
        "does not return on every way",
    ),
    "a bare return": ("if x > 0:\n    return\nreturn x", 2, "it returns nothing"),
    "None": ("return None", 1, "`None` is no part"),
    "a tuple": ("return x, y", 1, "a tuple is no part"),
    "assigned on one way": ("if x > 0:\n    z = 1\nreturn z", 3, "`z` may have no value"),
    "assigned on the other way": ("if x > 0:\n    pass\nelse:\n    z = 1\nreturn z", 5, "`z` may have no value"),
    "used too early": ("y = z\nz = 1\nreturn y", 1, "`z` has no value yet"),
    "a number as a condition": ("if x:\n    return 1\nreturn 2", 1, "`x` is a number where a condition"),
    "a walrus": ("return (z := x) + z", 1, "an assignment is no part"),
    "an unknown name": ("return xy", 1, "there is no `xy`"),
    "another operator": ("x %= 2\nreturn x", 1, "`%` is no operator"),
}


def loaded(folder, text, name="f"):
    file = folder / "written.py"
    file.write_text(text)
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location("written", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.mark.parametrize("kind", BODIES)
def test_statements_that_are_not_understood_are_shown_with_their_line(kind, tmp_path):
    body, line, what = BODIES[kind]
    text = "def f(x, y):\n" + "".join(f"    {part}\n" for part in body.split("\n"))
    with pytest.raises(UsageError) as raised:
        read_function(loaded(tmp_path, text))
    title, where, shown, *_ = str(raised.value).split("\n")
    assert what in title
    assert f"written.py, in f, line {line + 1}, column " in where
    assert shown.strip() == body.split("\n")[line - 1].strip()


def test_a_function_within_another_is_blamed_where_it_stands(tmp_path):
    function = loaded(tmp_path, "def g(z):\n    return z // 2\n\ndef f(x):\n    return g(x)\n")
    with pytest.raises(UsageError, match=r"written\.py, in g, line 2, column 14"):
        read_function(function)


@pytest.mark.parametrize(
    "thing",
    [functools.partial(square, x=1), torch.exp, math.exp, torch.nn.ReLU(), square.__call__, "x".upper, SimpleNamespace],
    ids=["partial", "torch", "math", "module", "slot", "method", "class"],
)
def test_what_is_no_python_function_is_an_error(thing):
    with pytest.raises(UsageError, match="write a function around it"):
        read_function(thing)


def test_a_function_without_a_source_is_an_error():
    made: dict[str, object] = {}
    exec("def f(x): return x", made)
    with pytest.raises(UsageError, match="typed at a prompt, or made by exec"):
        read_function(made["f"])


def test_a_file_that_was_edited_since_is_an_error(tmp_path):
    function = loaded(tmp_path, "def f(x):\n    return 2 * x\n")
    for edited in (
        "def f(x):\n    return 3 * x\n",
        "def f(x):\n    return 2 *  x\n",
        "\n\n",
        "def f(x:\n",
        "x = 1\n" * 9,
    ):
        (tmp_path / "written.py").write_text(edited)
        linecache.clearcache()
        with pytest.raises(UsageError, match="its source is not what Python compiled"):
            read_function(function)
    (tmp_path / "written.py").write_text("def f(x):\n    return 2 * x\n")
    linecache.clearcache()
    assert read_function(function).output.key == (number("x") * 2.0).key


def test_a_decorator_that_puts_another_function_in_its_place_is_seen(tmp_path):
    text = (
        "import functools\n"
        "def twice(function):\n"
        "    @functools.wraps(function)\n"
        "    def wrapper(*args):\n"
        "        return 2 * function(*args)\n"
        "    return wrapper\n"
        "@twice\n"
        "def f(x):\n"
        "    return x\n"
    )
    with pytest.raises(UsageError, match="any number of arguments"):
        read_function(loaded(tmp_path, text))


def test_functions_that_call_one_another_too_often_are_an_error(tmp_path):
    text = "def f0(x):\n    return x\n"
    text += "".join(f"def f{k}(x):\n    return f{k - 1}(f{k - 1}(x))\n" for k in range(1, 40))
    with pytest.raises(UsageError, match="too complex"):
        read_function(loaded(tmp_path, text, "f39"))


def test_a_very_long_chain_of_conditions_is_read(tmp_path):
    text = (
        "def f(x):\n" + "".join(f"    if x > {k}:\n        return {k} * x\n" for k in range(1_500)) + "    return x\n"
    )
    assert read_function(loaded(tmp_path, text)).inputs == ("x",)
