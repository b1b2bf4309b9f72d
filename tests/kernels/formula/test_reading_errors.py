"""What isn't understood in a formula's text: the error shows the column, and says what to do."""

import os
import re
import threading

import pytest

from gradwright.errors import UsageError
from gradwright.kernels.formula.functions import INSTEAD
from gradwright.kernels.formula.reading import read

# Text, with the column of the error marked by a caret below it; a word of what is wrong; a word of what to do.
REFUSED: list[tuple[str, str, str, str]] = [
    ("x % 2", "  ^", "`%`", "the k that is meant"),
    ("x // y", "  ^", "`//`", "write /"),
    ("(x < 1) & (y > 2)", "        ^", "`&`", "`and`"),
    ("(x < 1) | (y > 2)", "        ^", "`|`", "`or`"),
    ("x ^ 2", "  ^", "`^`", "**"),
    ("x @ y", "  ^", "`@`", "write *"),
    ("x << 2", "  ^", "`<<`", "2**n"),
    ("~(x > 0)", "^", "`~`", "`not`"),
    ("x is y", "  ^", "`is`", "=="),
    ("x not in y", "  ^", "`not in`", "!="),
    ("1 + x.y", "    ^", "an attribute", "by their names alone"),
    ("1 + torch.exp(x)", "    ^", "an attribute", "exp(x)"),
    ("x[0]", "^", "an index", "an input of its own"),
    ("1 + (lambda: x)", "     ^", "a lambda", "in its place"),
    ("1 + (y := x)", "     ^", "an assignment", "computed once"),
    ("x, y", "^", "a tuple", "for each of its values"),
    ("[x for x in y]", "^", "a comprehension", "terms out"),
    ("f'{x}'", "^", "a string", "numbers and inputs"),
    ("x + 'a'", "    ^", "`'a'`", "real numbers"),
    ("x * None", "    ^", "`None`", "real numbers"),
    ("x * 2j", "    ^", "a complex number", "real numbers"),
    ("exp(*x)", "    ^", "a star", "arguments out"),
    ("clamp(x, **y)", "         ^", "a star", "arguments out"),
    ("y + softpluss(x)", "    ^", "`softpluss`", "did you mean softplus"),
    ("y + ln(x)", "    ^", "`ln`", "write log(x)"),
    ("(x + y)(x)", " ^", "this is no part", "numbers, inputs"),
    ("exp(x)(y)", "^", "this is no part", "numbers, inputs"),
    ("x and y", "^", "`x` is a number", "> 0"),
    ("x > 0 or y", "         ^", "`y` is a number", "> 0"),
    ("not x", "    ^", "`x` is a number", "> 0"),
    ("where(x, 1, 2)", "      ^", "`x` is a number", "> 0"),
    ("x if y else 1", "     ^", "`y` is a number", "> 0"),
    ("y + exp(x, 2)", "    ^", "got 2 arguments", "give it 1"),
    ("exp()", "^", "got 0 arguments", "give it 1"),
    ("where(x > 0, 1)", "^", "got 2 arguments", "give it 3"),
    ("min(x)", "^", "got 1 argument", "2 or more"),
    ("clamp(x)", "^", "got 1 argument", "min or max or both"),
    ("clamp(min=1, max=2) + x", "^", "got 2 arguments", "give it x"),
    ("clamp(x, 1, 2, 3)", "^", "got 4 arguments", "min or max or both"),
    ("clamp(x, low=1)", "         ^", "no keyword `low`", "in that order"),
    ("exp(x=1)", "    ^", "no keyword `x`", "in that order"),
    ("clamp(x, 1, min=2)", "            ^", "two values for `min`", "give it once"),
    ("x + _y", "    ^", "`_y`", "call it `y`"),
    ("x + exp", "    ^", "`exp`", "call it, as in exp(x)"),
    ("pi(x)", "^", "`pi`", "functions"),
    ("x * 1e999", "    ^", "too large", "write inf"),
    ("x * 1" + "0" * 400, "    ^", "too large", "write inf"),
    ("x) + (y", "^", "brackets", "open it"),
    ("(x + y", "^", "never closed", "mend it"),
    ("x + * y", "    ^", "no expression", "mend it"),
    ("x + class", "    ^", "no expression", "names of inputs"),
    ("日本 + x % 2", "         ^", "`%`", "the k that is meant"),
    ("ä*ö % 2", "    ^", "`%`", "the k that is meant"),
]


@pytest.mark.parametrize(("text", "caret", "what", "do"), REFUSED, ids=[case[0][:30] for case in REFUSED])
def test_what_is_not_understood_is_shown_where_it_stands(text, caret, what, do):
    with pytest.raises(UsageError) as raised:
        read(text)
    title, where, shown, below, why, remedy = str(raised.value).split("\n")
    assert what in f"{title} {why}"
    assert shown.strip().rstrip("…") in text
    assert below.index("^") - (len(shown) - len(shown.lstrip())) == len(caret) - 1
    assert why.startswith("  why    ")
    assert remedy.startswith("  do     ") and do in remedy
    # Columns are counted in characters, carets in columns of a terminal: 日本 takes four.
    wide = sum(ord(c) > 0x2E80 for c in text)
    assert where.endswith(f"column {len(caret) - wide}")


def test_the_line_is_said_where_there_are_several():
    with pytest.raises(UsageError, match=r"line 2, column 5") as raised:
        read("x +\n  y % 2")
    assert "         y % 2\n           ^\n" in str(raised.value)


def test_of_a_long_line_the_place_is_shown():
    with pytest.raises(UsageError, match="column 604") as raised:
        read(" + ".join("x" for _ in range(150)) + " + yy % 2 + " + "z + " * 100 + "z")
    _, _, shown, below, *_ = str(raised.value).split("\n")
    assert len(shown) < 130
    assert shown[below.index("^")] == "%"


@pytest.mark.parametrize("name", INSTEAD)
def test_functions_by_other_names_are_explained(name):
    with pytest.raises(UsageError, match=re.escape(f"write {INSTEAD[name]}")):
        read(f"x + {name}(x)")


@pytest.mark.parametrize("name", [name for name in INSTEAD if name not in ("float", "gelu", "clip", "power", "isnan")])
def test_what_is_proposed_instead_can_be_read(name):
    proposal = INSTEAD[name].partition(", which")[0]
    assert "x" in read(proposal).inputs


@pytest.mark.parametrize(
    ("text", "what"),
    [("", "it is empty"), ("  \n ", "it is empty"), ("pi", "it has no input"), ("1 < 2", "it has no input")],
)
def test_a_formula_has_an_input(text, what):
    with pytest.raises(UsageError, match=what):
        read(text)


DEEP = {
    "brackets": "(" * 40_000 + "x" + ")" * 40_000,
    "signs": "-" * 90_000 + "x",
    "a sum": "x" + "+x" * 45_000,
    "powers": "x" + "**x" * 30_000,
    "not": "not " * 20_000 + "(x > 0)",
    "calls": "exp(" * 20_000 + "x" + ")" * 20_000,
    "choices": "x if x > 0 else " * 6_000 + "x",
    "attributes": "x" + ".y" * 45_000,
    "an index": "x" + "[0]" * 30_000,
    "lambdas": "lambda:" * 12_000 + "x",
    "comparisons": "x" + "<x" * 45_000,
    "connectives": "x>0" + " or x>0" * 14_000,
    "too long": "x" * 100_001,
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_text_too_deep_or_too_long_is_an_error_of_ours(kind):
    with pytest.raises(UsageError, match=r"too complex|too long|nested parentheses"):
        read(DEEP[kind])


def test_a_text_too_deep_is_an_error_in_a_thread_too():
    raised: list[Exception] = []

    def reading() -> None:
        for text in DEEP.values():
            try:
                read(text)
            except UsageError as error:
                raised.append(error)

    thread = threading.Thread(target=reading)
    thread.start()
    thread.join()
    assert len(raised) == len(DEEP)


def test_a_long_sum_is_read():
    assert read("x" + " + x*y" * 1_000).inputs == ("x", "y")


@pytest.mark.parametrize("text", ["x\0y", "\ud800 + x", "x + \x1b"], ids=ascii)
def test_characters_that_no_text_has_are_an_error(text):
    with pytest.raises(UsageError):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').environ.__setitem__('GRADWRIGHT_RAN', '1')",
        "eval('x')",
        "x + (lambda: open('/dev/null'))()",
        "().__class__.__bases__[0].__subclasses__()",
        "exp.__globals__['x']",
        "[].append(x)",
        "{}[x]",
        "f'{x.__class__}'",
    ],
)
def test_no_text_is_run(text):
    with pytest.raises(UsageError, match=r"is no part of a formula|there is no function|no input can be called"):
        read(text)
    assert "GRADWRIGHT_RAN" not in os.environ
