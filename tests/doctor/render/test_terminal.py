"""The terminal's text: the first sight of DESIGN.md, and what must hold for any report, however odd."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.calls import count_calls

from gradwright.doctor.render.terminal import NARROWEST, render
from gradwright.doctor.session.facts import DeclaredSurrogate
from gradwright.doctor.session.model import (
    Candidate,
    Finding,
    NotExamined,
    Report,
    Script,
    ScriptDeath,
    Source,
    Subject,
)
from gradwright.doctor.session.place import Location

FIRST_SIGHT = """\
2 custom Functions · 40 steps watched · the script ran 25.1 s and exited 0

  Function   gradient                         forward   backward  (totals)
  MySquare   right  (8 checks, 4 inputs)       10.6 s     14.1 s
  Scale      WRONG in w: half of what it is    120 us     1.4 ms

GW301 warning  train.py:18  MySquare.backward is a Python loop over elements: 2,000,000 operations, 99 % of the step
   17 │     for row in range(len(x)):
   18 │         for col in range(x.shape[1]):
   19 │             grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
      │             ^^^^^^^^^^^^^^^^ once per element
  why    every element goes through Python and the dispatcher on its own
      - 3 lines
      + grad_x = grad_output * 2 * x
      verified on 4 inputs, worst difference 0: 14.1 s -> 9 ms
  more   gradwright explain GW301

GW101 error  train.py:42  Scale.backward returns half the gradient of w
   40 │     def backward(ctx, g):
   41 │         x, w = ctx.saved_tensors
   42 │         return g @ w.t(), 0.5 * x.t() @ g
      │                           ^^^^^^^^^^^^^^^
  why    autograd of the forward and finite differences agree with each other, and not with it
  do     return x.t() @ g
      - return g @ w.t(), 0.5 * x.t() @ g
      + return g @ w.t(), x.t() @ g   verified on 4 inputs, worst difference 0
  more   gradwright explain GW101

2 findings (1 error, 1 warning), 2 verified fixes: gradwright fix train.py shows them, --apply makes them
not examined:
  second order of Scale
"""


def caret_columns(text: str) -> list[tuple[str, str]]:
    """Each marked line as (what stands above the carets, the whole line), by cells."""
    found = []
    lines = text.splitlines()
    for above, below in itertools.pairwise(lines):
        marks = re.search(r"\^+", below)
        if marks and "│" in below:
            marked = "".join(
                character for at, character in enumerate(above) if marks.start() <= cell_len(above[:at]) < marks.end()
            )
            found.append((marked, above))
    return found


def test_first_sight_is_the_one_of_the_design(make):
    assert render(make.first_sight(), width=120, color=False) == FIRST_SIGHT


def test_no_line_is_wider_than_asked_for_but_one_that_cannot_break(make):
    for width in (NARROWEST, 60, 80, 100, 200):
        lines = render(make.first_sight(), width=width, color=False).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert not any(line.endswith(" ") for line in lines)


def test_number_and_its_unit_stay_on_one_line(make):
    for width in range(60, 130):
        text = render(make.first_sight(), width=width, color=False)
        assert not re.search(r"\d\n +(?:s|ms|us|%)\b", text)
        assert "9 ms\n" in text
        assert "99 %" in text


def test_colour_adds_escapes_and_changes_no_word(make):
    coloured = render(make.first_sight(), width=120, color=True)
    assert "\x1b[1;31merror\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == FIRST_SIGHT


def test_environment_does_not_decide_about_colour(make, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" in render(make.first_sight(), width=120, color=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in render(make.first_sight(), width=120, color=False)


def test_clean_report_claims_no_more_than_that_nothing_was_found(make):
    report = Report(script=make.script, subjects=(make.subject(),), facts=(make.calls(), make.verdict()))
    text = render(report, width=100, color=False)
    assert text.endswith("\nnothing wrong was found\n")
    assert "everything" not in text


def test_empty_report_is_a_report():
    assert render(Report(), width=80, color=False) == "no custom Functions\n\nnothing wrong was found\n"


def test_script_without_functions_or_gradients_says_so(make):
    text = render(Report(script=Script(argv=("a.py",), exit_code=0, seconds=0.2)), width=100, color=False)
    assert text.startswith("no custom Functions · no gradient was asked for · the script ran 200 ms and exited 0\n")


def test_script_that_died_shows_the_exception_and_its_line(make):
    death = ScriptDeath("RuntimeError", "sizes differ", "Traceback ...", Location("train.py", 19, 17, 19, 33))
    report = Report(script=replace(make.script, exit_code=1, exception=death), sources=(make.source(),))
    text = render(report, width=120, color=False)
    assert "ran 25.1 s and died of RuntimeError at train.py:19" in text
    assert "\n  RuntimeError: sizes differ\n" in text
    assert caret_columns(text)[0][0] == "grad_x[row, col]"
    assert "no rule explains how the script ended" in text
    assert "nothing wrong" not in text


def test_exception_that_a_finding_explains_is_told_once(make):
    death = ScriptDeath("RuntimeError", "sizes differ", "Traceback ...", make.at)
    report = Report(script=replace(make.script, exception=death), findings=(make.finding(code="GW901"),))
    text = render(report, width=120, color=False)
    assert "RuntimeError: sizes differ" not in text
    assert "died of RuntimeError at train.py:18" in text


def test_killed_script_names_the_signal_and_is_not_called_clean(make):
    text = render(Report(script=replace(make.script, exit_code=-9)), width=100, color=False)
    assert "was ended by SIGKILL" in text
    assert "nothing wrong" not in text


@pytest.mark.parametrize("reason", ["after 200 steps", "enough was seen", "", "after 200 steps: enough was seen"])
def test_stopped_script_says_how_to_let_it_finish(make, reason):
    script = replace(make.script, steps=200, exit_code=None, stopped_early=reason)
    text = render(Report(script=script), width=200, color=False)
    assert "was stopped after 200 steps: enough was seen (--to-end lets it finish)" in text
    assert text.count("enough was seen") == 1


def test_work_grows_as_the_number_of_findings_does_and_each_code_is_explained_once(make):
    def report(count: int) -> Report:
        places = [Location("train.py", 18, 1 + at % 9, 18, 12) for at in range(count)]
        findings = tuple(make.finding(location=place, evidence=("loop 1",)) for place in places)
        return replace(make.first_sight(), findings=findings)

    def calls(count: int) -> int:
        return count_calls(lambda: render(report(count), width=100, color=True))

    calls(1)  # what is read or compiled once
    assert calls(200) < 2.2 * calls(100)
    text = render(report(500), width=100, color=True)
    assert text.count("│     for row in") + text.count("\x1b[0m    for row in") >= 500
    assert text.count("gradwright explain GW301") == 1


def test_markup_and_escapes_of_the_user_are_shown_as_text_or_dropped(make):
    source = make.source("x = '[red]a[/red] \x1b[31mRED\x1b]0;title\x07 \u202edne'\n")
    report = Report(
        script=make.script,
        sources=(source,),
        subjects=(make.subject("[bold]Evil[/bold]\x1b[2J"), make.subject("A\nB")),
        findings=(
            make.finding(
                location=Location("train.py", 1, 1, 1, 2),
                message="[red]not red[/red] \x1b[31mnor this\x1b[0m\r\nnext :smile: [link=file:///x]y[/link]",
                why="[/]",
                hints=("[",),
            ),
        ),
        not_examined=(NotExamined("[blink]what[/blink]\x1b[5m", "\x9b31mwhy"),),
    )
    plain = render(report, width=200, color=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", plain)
    for text in (
        "[red]not red[/red] nor this next :smile: [link=file:///x]y[/link]",
        "[bold]Evil[/bold]",
        "A B",
        "[/]",
    ):
        assert text in plain
    assert "x = '[red]a[/red] \ufffd[31mRED" in plain
    coloured = render(report, width=200, color=True)
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", coloured)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_carets_stand_below_their_columns_after_tabs_and_wide_characters(make):
    lines = {
        "\tif 数据[i] == 1: y[i] = x[i]": "y[i]",
        "  s = '日本語'; \ty[i] = x[i]": "y[i]",
        "e\u0301 = y[i]": "y[i]",
    }
    for line, marked in lines.items():
        start = line.index(marked) + 1
        at = Location("train.py", 1, start, 1, start + len(marked))
        report = Report(sources=(make.source(line),), findings=(make.finding(location=at),))
        assert caret_columns(render(report, width=80, color=False))[0][0] == marked


def test_marked_columns_far_to_the_right_are_brought_into_sight(make):
    line = "x = " + "a + " * 100 + "guilty(b) + " + "c + " * 100 + "d"
    start = line.index("guilty") + 1
    report = Report(
        sources=(make.source(line),), findings=(make.finding(location=Location("train.py", 1, start, 1, start + 9)),)
    )
    text = render(report, width=60, color=False)
    assert caret_columns(text)[0][0] == "guilty(b)"
    assert max(map(cell_len, text.splitlines())) <= 60


def test_place_without_source_or_beyond_it_shows_no_excerpt(make):
    for at in (Location("other.py", 3), Location("train.py", 10_000), Location("", 0), Location("train.py", 0)):
        text = render(Report(sources=(make.source(),), findings=(make.finding(location=at),)), width=100, color=False)
        assert "│" not in text
        assert "GW301 warning" in text


def test_numbers_that_are_none_do_not_break_the_table(make):
    nan = float("nan")
    report = Report(
        script=replace(make.script, seconds=nan),
        subjects=(make.subject(),),
        facts=(
            make.calls(forward=nan, backward=float("inf")),
            make.verdict(verdict="wrong", cause="formula", error=nan, returned=nan, expected=float("-inf"), at=(3, 1)),
        ),
    )
    text = render(report, width=100, color=False)
    assert "WRONG in x: at [3, 1]: returned nan, is -inf" in text
    assert "? s" in text


def test_suppressed_findings_are_counted_and_not_shown(make):
    report = Report(suppressed=(make.finding(), make.finding()))
    text = render(report, width=100, color=False)
    assert text.endswith("nothing wrong was found · 2 suppressed\n")
    assert "GW301" not in text


def test_wrong_gradient_whose_finding_was_suppressed_is_not_called_clean(make):
    wrong = make.verdict(verdict="wrong", cause="sign")
    report = Report(subjects=(make.subject(),), facts=(wrong,), suppressed=(make.finding(code="GW101"),))
    text = render(report, width=100, color=False)
    assert "WRONG in x" in text
    assert text.endswith("nothing else was found · 1 suppressed\n")


def test_information_alone_is_clean_and_still_shown(make):
    text = render(Report(findings=(make.finding(severity="info"),)), width=100, color=False)
    assert "GW301 info" in text
    assert text.endswith("nothing wrong was found, 1 finding for information\n")


def test_many_unexamined_things_are_listed_then_counted():
    report = Report(not_examined=tuple(NotExamined(f"thing {at}", "no fork here") for at in range(20)))
    text = render(report, width=100, color=False)
    assert "nothing wrong was found · not examined:\n  thing 0: no fork here\n" in text
    assert "thing 7" in text
    assert "thing 8" not in text
    assert "and 12 more; --format json lists them all" in text


def test_function_without_a_call_is_listed_as_not_examined(make):
    report = Report(script=make.script, subjects=(make.subject("Unused"),))
    text = render(report, width=100, color=False)
    assert re.search(r"Unused +not examined: no call was seen", text)
    assert text.endswith("not examined: Unused (no call was seen)\n")


def test_surrogate_that_was_declared_carries_its_reason(make):
    declared = DeclaredSurrogate(id="d", subject="subject MySquare", reason="straight-through")
    wrong = make.verdict(verdict="surrogate", cause="piecewise constant")
    shown = render(Report(subjects=(make.subject(),), facts=(make.calls(), wrong, declared)), width=100, color=False)
    assert "surrogate (declared: straight-through)" in shown
    unsaid = render(Report(subjects=(make.subject(),), facts=(make.calls(), wrong)), width=100, color=False)
    assert "surrogate?  (the forward is piecewise constant)" in unsaid


def test_failed_candidate_is_told_with_its_counterexample_and_is_no_fix(make):
    finding = make.finding(candidates=(Candidate("compile_loop", "--- a\n", "at [0, 3]: 1.5 instead of 2"),))
    text = render(Report(findings=(finding,)), width=100, color=False)
    assert "compile_loop was tried and is no fix: at [0, 3]: 1.5 instead of 2" in text
    assert "verified" not in text


def test_candidate_that_was_not_replayed_is_never_called_verified(make):
    diff = "--- a/train.py\n+++ b/train.py\n@@ -18 +18 @@\n-a\n+b\n"
    text = render(Report(findings=(make.finding(candidates=(Candidate("rewrite", diff),)),)), width=100, color=False)
    assert "      - a\n      + b\n      not verified: a suggestion" in text
    assert "fix" not in text.splitlines()[-1]


any_text = st.text(max_size=60)
places = st.builds(
    Location,
    st.just("train.py"),
    st.integers(-1, 6),
    st.integers(-3, 40),
    st.integers(-1, 8),
    st.integers(-3, 60),
)


@settings(max_examples=60, deadline=None)
@given(source=st.text(max_size=200), at=places, message=any_text, name=any_text, width=st.integers(0, 200))
def test_any_text_at_any_place_is_rendered_within_the_width(source, at, message, name, width):
    report = Report(
        sources=(Source("train.py", "", source),),
        subjects=(Subject("s", "function", name, at),),
        findings=(Finding("GW301", "n", "speed", "error", name, at, message, why=message, hints=(message,)),),
    )
    lines = render(report, width=width, color=False).split("\n")
    assert max(map(cell_len, lines)) <= max(width, NARROWEST)
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", line) for line in lines)
