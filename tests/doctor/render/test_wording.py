"""Verdicts in words: the cause, what was tried, and nothing beyond it."""

from __future__ import annotations

import pytest

from gradwright.doctor.render.wording import cause, clean, gradient_cell, listed, seconds
from gradwright.doctor.session.model import NotExamined, Report


def cell(make, *facts, **report):
    return str(gradient_cell(Report(facts=facts, **report), make.subject()))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cause": "constant factor", "factor": 0.5}, "half of what it is"),
        ({"cause": "constant factor", "factor": 2.0000001}, "twice what it is"),
        ({"cause": "constant factor", "factor": 0.25}, "a quarter of what it is"),
        ({"cause": "constant factor", "factor": 1.25}, "1.25 times what it is"),
        ({"cause": "constant factor", "factor": -1.0}, "has the wrong sign"),
        ({"cause": "constant factor", "factor": -0.5}, "half of what it is, and the wrong sign"),
        ({"cause": "sign"}, "has the wrong sign"),
        ({"cause": "dropped term", "factor": 0.0, "returned": 0.0, "expected": 1.25}, "zero where it is 1.25"),
        ({"cause": "dropped term", "factor": 0.0}, "zero where it is not"),
        ({"cause": "transpose"}, "transposed"),
        ({"cause": "missing grad_output"}, "ignores the cotangent"),
        ({"cause": "formula", "at": (3, 1), "returned": 0.5, "expected": 1.25}, "at [3, 1]: returned 0.5, is 1.25"),
        ({"cause": "formula", "returned": 0.5, "expected": 1.25}, "returned 0.5, is 1.25"),
        ({"cause": "formula", "error": 0.12}, "off by 12 % of its largest entry"),
        ({"cause": "region", "reason": "in x < 0 (zero there)"}, "region: in x < 0 (zero there)"),
        ({"cause": "sign", "factor": float("nan")}, "has the wrong sign"),
        (
            {"cause": "constant factor", "factor": float("nan"), "error": float("nan")},
            "off by ? % of its largest entry",
        ),
    ],
)
def test_cause_is_said_as_a_person_would(make, fields, words):
    assert cause(make.verdict(verdict="wrong", **fields)) == words


def test_right_counts_checks_and_distinct_inputs(make):
    verdicts = [make.verdict(input=name, specimen=specimen) for name in ("x", "w") for specimen in ("s0", "s1")]
    assert cell(make, *verdicts) == "right  (8 checks, 2 inputs)"
    assert cell(make, make.verdict(checks=1)) == "right  (1 check, 1 input)"


def test_wrong_beats_right_and_names_only_the_wrong_inputs(make):
    half = {"verdict": "wrong", "cause": "constant factor", "factor": 0.5}
    verdicts = [make.verdict(input="x"), make.verdict(input="w", **half), make.verdict(input="b", **half)]
    assert cell(make, *verdicts) == "WRONG in w and b: half of what it is"


def test_wrong_in_two_ways_tells_both(make):
    half = make.verdict(input="w", verdict="wrong", cause="constant factor", factor=0.5)
    sign = make.verdict(input="b", verdict="wrong", cause="sign")
    assert cell(make, half, sign) == "WRONG in w: half of what it is; in b: has the wrong sign"


def test_wrong_on_some_inputs_only_says_on_how_many(make):
    wrong = make.verdict(specimen="s0", verdict="wrong", cause="sign")
    assert cell(make, wrong, make.verdict(specimen="s1")) == "WRONG in x: has the wrong sign (on 1 of 2 inputs)"


def test_unknown_is_never_called_right(make):
    unknown = make.verdict(input="w", verdict="unknown", reason="oracles disagree")
    assert cell(make, unknown) == "unknown: oracles disagree"
    assert cell(make, make.verdict(), unknown) == "right in x (2 checks, 1 input), unknown in w: oracles disagree"
    here, there = make.verdict(specimen="s0"), make.verdict(specimen="s1", verdict="unknown", reason="random")
    assert cell(make, here, there) == "right (2 checks, 1 input), but unknown on 1 other input: random"


def test_function_without_verdict_is_not_examined_and_says_why_where_that_is_known(make):
    assert cell(make, make.calls()) == "not examined"
    assert cell(make) == "not examined: no call was seen"
    assert cell(make, make.calls(backward_calls=0)) == "not examined: its backward was never called"
    why = (NotExamined("second order of MySquare", "no"), NotExamined("MySquare", "reads a file"))
    assert cell(make, make.calls(), not_examined=why) == "not examined: reads a file"


def test_unnamed_input_is_told_by_its_position(make):
    assert cell(
        make, make.verdict(input="", input_index=2, verdict="wrong", cause="dropped term", factor=0.0)
    ).startswith("WRONG in input 2")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.99996, "1 s"),
        (0.00099999, "1 ms"),
        (599.96, "10 min"),
        (1e-7, "0.1 us"),
        (3 * 3600, "3.0 h"),
        (1e-9, "under 0.1 us"),
    ],
)
def test_seconds_move_to_the_next_unit_when_rounding_does(value, words):
    assert seconds(value) == words


def test_clean_leaves_ordinary_text_of_any_language_alone():
    assert clean("größe 数据 e\u0301 🙂 [x] <b>") == "größe 数据 e\u0301 🙂 [x] <b>"
    assert clean("a\ud800b\u202ec\x9b1md") == "abcd"


def test_names_are_listed_as_in_a_sentence():
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
