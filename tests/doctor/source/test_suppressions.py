"""Comments that silence findings: where they count, and where they only look like it."""

from __future__ import annotations

import textwrap

import pytest

from gradwright.doctor.source.suppressions import Suppressions


def of(text: str) -> Suppressions:
    return Suppressions.of(textwrap.dedent(text).lstrip("\n"))


def covered(text: str, code: str = "GW301") -> list[int]:
    marks = of(text)
    return [line for line in range(1, 30) if marks.covers(code, line)]


def test_a_comment_speaks_for_its_line():
    assert covered("x = 1\ny = f(x)  # gradwright: ignore[GW301] it is small\nz = 1\n") == [2]


@pytest.mark.parametrize(
    ("comment", "code", "silent"),
    [
        ("# gradwright: ignore", "GW999", True),
        ("# gradwright: ignore[GW301]", "GW301", True),
        ("# gradwright: ignore[GW301]", "GW302", False),
        ("# gradwright: ignore[GW301,GW302] why", "GW302", True),
        ("# gradwright: ignore[ gw301 , GW302 ]", "GW301", True),
        ("# gradwright: ignore[GW3]", "GW302", True),
        ("#gradwright:ignore[GW301]", "GW301", True),
        ("# type: ignore  # gradwright: ignore[GW301]", "GW301", True),
        ("# gradwright: ignore[]", "GW301", False),
        ("# gradwright: ignored", "GW301", False),
        ("# gradwright: ignore-file", "GW301", False),
        ("# gradwright ignore[GW301]", "GW301", False),
    ],
)
def test_codes_are_read(comment: str, code: str, silent: bool):
    assert of(f"y = f(x)  {comment}\n").covers(code, 1) is silent


def test_a_comment_on_its_own_line_speaks_for_the_next_statement():
    assert covered("x = 1\n# gradwright: ignore[GW301]\n# and why\n\ny = f(\n    x)\nz = 1\n") == [2, 5, 6]


def test_a_comment_on_any_line_of_a_long_statement_speaks_for_all_of_it():
    assert covered("y = f(\n    x,  # gradwright: ignore[GW301]\n    z,\n)\nw = 1\n") == [1, 2, 3, 4]


@pytest.mark.parametrize("head", ["def f(x):", "class A:", "for i in x:", "while x:", "async def f(x):"])
def test_a_comment_on_the_head_of_a_block_speaks_for_the_block(head: str):
    text = f"{head}  # gradwright: ignore[GW301]\n    a = 1\n\n    if a:\n        b = 2\nc = 3\n"
    assert covered(text) == [1, 2, 3, 4, 5]


def test_a_comment_on_an_if_speaks_for_its_line_only():
    assert covered("if x:  # gradwright: ignore[GW301]\n    a = 1\n") == [1]


def test_a_comment_above_or_on_a_decorator_speaks_for_the_function():
    assert covered("# gradwright: ignore[GW301]\n@mark\ndef f():\n    a = 1\nb = 2\n") == [1, 2, 3, 4]
    assert covered("@mark  # gradwright: ignore[GW301]\n@other\ndef f():\n    a = 1\nb = 2\n") == [1, 2, 3, 4]


def test_a_comment_on_one_of_the_findings_lines_counts():
    marks = of("for i in x:\n    for j in x:\n        y[i, j] = 0  # gradwright: ignore[GW301]\nz = 1\n")
    assert marks.covers("GW301", 1, 3)
    assert not marks.covers("GW301", 1)


def test_a_string_is_no_comment():
    assert covered('y = \'# gradwright: ignore\'\n"""\n# gradwright: ignore\n"""\n') == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f(  # gradwright: ignore\n",
        "x = '''\n# gradwright: ignore\n",
        "def f():\n        x = 1  # gradwright: ignore\n    y = 2\n",
        "# gradwright: ignore",
        "\t# gradwright: ignore\n",
        "?? # gradwright: ignore\n",
    ],
)
def test_text_that_python_can_not_read_does_no_harm(text: str):
    Suppressions.of(text).covers("GW301", 1)


def test_tabs_and_unicode_do_no_harm():
    assert covered("def größe():\n\tx = 1  # gradwright: ignore – weil ü\n\ty = 2\n") == [2]
