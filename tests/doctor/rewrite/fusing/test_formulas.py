"""What a loop became, as one formula above its function: the same numbers and gradients; what is no chain stays."""

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import PATH, added_lines, assert_same, rewritten, source_of

from gradwright.doctor.rewrite import with_formula
from gradwright.doctor.rewrite.fusing.chains import Passage
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.source.expressions.formulas import LONG

LOOP = """
    total = {before}
    for i in range(len(x)):
        d = x[i] - y[i]
        total = total + {term}
    return total / len(x)
"""
TERM = "torch.tanh(d * d) * x[i] + 0.5 * d"


def loop(term=TERM, before="0.0"):
    return source_of(LOOP.format(term=term, before=before), "x, y")


def args(n=5):
    generator = torch.Generator().manual_seed(n)
    return [torch.randn(n, generator=generator), torch.randn(n, generator=generator)]


def as_formula(text, given):
    plain = rewritten(text, given)
    return plain, with_formula(SourceText(PATH, text), plain)


def test_a_chain_is_a_formula_above_its_function_and_a_call_of_it():
    plain, found = as_formula(loop(), args())
    assert added_lines(plain).splitlines() == ["d = x - y", "total = (torch.tanh(d * d) * x + 0.5 * d).sum()"]
    assert [line for line in added_lines(found).splitlines() if line] == [
        "import gradwright as gw",
        '_f_formula = gw.elementwise("tanh((x - y) * (x - y)) * x + 0.5 * (x - y)", reduction="sum")',
        "total = _f_formula(x, y)",
    ]
    assert "8 of its operations one pass" in found.what
    lines = found.new_text.splitlines()
    first, last = found.region
    assert [line.strip() for line in lines[first - 1 : last]] == ["total = _f_formula(x, y)"]
    assert lines[found.lines[0] - 1].startswith("def f(")
    for n in (5, 1):
        assert_same(loop(), found.new_text, args(n))
    assert_same(loop(), found.new_text, [one.double() for one in args()])
    assert_same(loop(), found.new_text, [torch.tensor([float("inf"), 0.0, -1.0]), torch.zeros(3)])


def test_a_whole_row_is_a_formula_too_and_what_else_reads_a_name_still_does():
    text = source_of(
        """
        out = torch.zeros_like(x)
        for i in range(1, len(x)):
            out[i] = torch.exp(-(x[i] - x[i - 1]) ** 2) * 0.5 + x[i] * y[i]
        return out
        """,
        "x, y",
    )
    _, found = as_formula(text, args())
    assert "_f_formula(x[1:], x[:-1], y[1:" in added_lines(found)
    for n in (5, 2, 1):
        assert_same(text, found.new_text, args(n))


LEFT = {
    "three operations": loop("d * d * x[i]"),
    "the name gw is taken": loop().replace("\n\n\ndef", "\ngw = 3\n\n\ndef"),
    "a comment would go": loop().replace("y[i]\n", "y[i]  # what is missing\n"),
}


@pytest.mark.parametrize("text", LEFT.values(), ids=list(LEFT))
def test_what_is_no_chain_stays_as_it_is(text):
    plain, found = as_formula(text, args())
    assert plain is not None and found is None


def test_only_what_is_still_the_same_is_put_in_the_place_of_a_name():
    lines = ["x = 2 * x", "a = x + y", "b = a * y", "x = y", "z = (a * x * b * y - x).sum()", "return z"]
    text = "import torch\n\ndef f(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    (chain,) = Passage(text, (4, 8)).chains(LONG)
    assert chain.formula.text == "a * x * (a * y) * y - x" and [one.lineno for one in chain.needless] == [6]
    later = text.replace("return z", "return z + b")
    (chain,) = Passage(later, (4, 8)).chains(LONG)
    assert chain.formula.text == "a * x * b * y - x" and not chain.needless
    (chain,) = Passage(text.replace("x = y", "y.add_(1)"), (4, 8)).chains(LONG)
    assert chain.formula.text == "a * x * b * y - x" and not chain.needless


@pytest.mark.parametrize("between", ["\n\n\n", "\n", "\n\n\nscale = 2.0\n\n\n# sums\n", "\nimport gradwright\n\n\n"])
def test_the_new_text_is_a_module_whatever_stands_between_its_imports_and_the_function(between):
    text = loop().replace("\n\n\ndef", f"{between}def")
    _, found = as_formula(text, args())
    assert_same(text, found.new_text, args())
    first, last = found.region
    assert [line.strip() for line in found.new_text.splitlines()[first - 1 : last]] == ["total = _f_formula(x, y)"]
