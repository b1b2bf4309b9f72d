"""How a report looks, as text and as HTML."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import gradwright as gw
from gradwright.checking.report import CheckReport, Done, Finding, Given, NotChecked, Place
from gradwright.checking.shown import WIDTH, headline, plain
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, InputVerdict

HERE = Path(__file__).parent / "shown"

RIGHT = InputVerdict(index=0, name="x", verdict="right", oracles=(AUTOGRAD, DIFFERENCES), error=2.5e-16)
WRONG = InputVerdict(
    index=1, name="weight", verdict="wrong", cause="constant factor", factor=0.5, error=0.5, at=(1, 2),
    returned=1.0, expected=2.0, oracles=(AUTOGRAD, DIFFERENCES),
)  # fmt: skip
FAULT = Finding(
    code="GW101", name="gradient-value-wrong", cause="constant factor", severity="error", input="weight",
    message="Halved returns a wrong gradient of weight: constant factor",
    why="weight[1, 2]: returned 1, is 2 (relative error 0.5, by autograd of the forward and finite differences), "
    "and so at every other entry of it that was looked at",
    do="divide what is returned for weight by 0.5",
    check="value", location=Place("halved.py", 41),
)  # fmt: skip
RAN = (Done("value", 12, 0.002), Done("layout", 9, 0.001))

REPORTS = {
    "wrong": CheckReport(
        subject="Halved", level="standard", seed=0, verdicts=(RIGHT, WRONG), findings=(FAULT,), done=RAN, seconds=0.003,
        given=(Given("float32 [4, 3]"), Given("float64 [2, 3]", "0.31")),
        shrink=lambda: "import torch\n\nassert torch.ones(1) == 2, 'as long as the fault is there'\n",
    ),
    "right": CheckReport(
        subject="Square", level="quick", seed=3, verdicts=(RIGHT,), done=RAN, given=(Given("float32 [4, 3]"),),
        seconds=0.003,
    ),
    "surrogate": CheckReport(
        subject="Rounded", level="standard", seed=0, done=RAN, seconds=0.003, given=(Given("float32 [7]"),),
        verdicts=(InputVerdict(index=0, name="x", verdict="surrogate", cause="piecewise constant",
                               reason="gradients pass through round", oracles=(DIFFERENCES,)),),
        findings=(Finding(code="GW102", name="surrogate-not-declared", cause="formula", severity="warning",
                          message="Rounded returns something else than the derivative for x",
                          do='write @gw.surrogate(reason="...") above the class'),),
    ),
    "unknown": CheckReport(
        subject="Searched", level="full", seed=0, done=RAN, seconds=0.003, given=(Given("float32 [7]"),),
        verdicts=(InputVerdict(index=0, name="x", verdict="unknown", reason="finite differences are unstable here"),),
        not_checked=(NotChecked("the gradient of x", "finite differences are unstable here"),
                     NotChecked("low precision", "the forward takes float64 only")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REPORTS)
def test_each_kind_of_subject_reads_as_it_should(kind, golden):
    golden(str(REPORTS[kind]), HERE / f"{kind}.txt")
    golden(REPORTS[kind]._repr_html_(), HERE / f"{kind}.html")


@pytest.mark.parametrize("kind", REPORTS)
def test_the_text_is_a_hundred_columns_wide(kind):
    text = str(REPORTS[kind]).split("counterexample,")[0]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_table_too_wide_is_narrowed_from_its_end():
    verdict = InputVerdict(
        index=0, name="n" * 30, verdict="wrong", cause="c" * 30, at=(1,) * 9, returned=1.0, oracles=("o" * 30,)
    )
    report = CheckReport(subject="F", level="quick", seed=0, verdicts=(verdict,), given=(Given("float32 [3]"),))
    head, row = str(report).splitlines()[2:4]
    assert "n" * 30 in row and len(row) <= WIDTH and "…" in row and "cause" in head


class Outline(HTMLParser):
    """The text of a fragment and its tags, which must be closed in order."""

    def __init__(self, fragment):
        super().__init__()
        self.open, self.tags, self.said = [], [], ""
        self.feed(fragment)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said += data if "style" not in self.open else ""


HOSTILE = "<script>alert('x')</script>&\x1b[31m\r\nred\"'"


def hostile_report():
    return CheckReport(
        subject=HOSTILE, level="quick", seed=0, verdicts=(InputVerdict(index=0, name=HOSTILE, verdict="right"),),
        findings=(Finding(code="GW101", name=HOSTILE, cause=HOSTILE, severity="error", message=HOSTILE, why=HOSTILE),),
        not_checked=(NotChecked(HOSTILE, HOSTILE),), done=(Done(HOSTILE, 1, 0.0),), given=(Given(HOSTILE),),
        shrink=lambda: "print('</pre><script>')",
    )  # fmt: skip


def test_nothing_that_a_user_named_becomes_markup():
    outline = Outline(hostile_report()._repr_html_())
    assert "script" not in outline.tags and set(outline.tags) <= {
        "div", "style", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "section", "dl", "dt", "dd",
        "ul", "li", "details", "summary", "pre",
    }  # fmt: skip
    assert "<script>alert('x')</script>" in outline.said


def test_nothing_that_a_user_named_is_obeyed_by_a_terminal():
    text = str(hostile_report())
    assert "\x1b" not in text and "\r" not in text
    assert plain("\x1b[31m") == r"\x1b[31m"


@pytest.mark.parametrize("kind", REPORTS)
def test_html_says_what_the_text_says(kind):
    said = " ".join(Outline(REPORTS[kind]._repr_html_()).said.split())
    for finding in REPORTS[kind].findings:
        assert finding.message in said and finding.do in said
    for line in REPORTS[kind].not_checked:
        assert str(line) in said
    assert headline(REPORTS[kind]) in said


def test_the_table_of_a_real_report_names_what_was_given():
    text = str(gw.check(torch.sin, torch.ones(2, 3), level="quick"))
    assert "float32 [2, 3]" in text and "no fault found" in text
