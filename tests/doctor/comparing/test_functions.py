"""Verdicts and times of Functions, before and after."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.doctor.render.conftest import Maker

from gradwright.doctor.comparing import compare
from gradwright.doctor.comparing.shown import as_json, as_text
from gradwright.doctor.session.facts import DeclaredSurrogate, FunctionCalls
from gradwright.doctor.session.model import NotExamined, Report, Source, Specimen, Subject, TensorSpec
from gradwright.doctor.session.place import Location

MAKE = Maker()


def session(*facts, functions: tuple[str, ...] = ("Scale",), line: int = 3, **fields) -> Report:
    subjects = tuple(
        Subject(f"subject {name}", "function", name, Location("train.py", line + at))
        for at, name in enumerate(functions)
    )
    return Report(subjects=subjects, facts=facts, **fields)


def verdict(word: str, input: str = "x", specimen: str = "s0", name: str = "Scale", **fields):
    return MAKE.verdict(name, input, specimen, verdict=word, **fields)


def changes(old: Report, new: Report) -> list[tuple[str, str, str, str]]:
    return [(c.turn, c.input, c.before, c.after) for c in compare(old, new).gradients]


@pytest.mark.parametrize(
    ("before", "after", "turn", "words"),
    [
        ("right", "right", None, None),
        ("right", "wrong", "worse", ("right", "WRONG")),
        ("right", "unknown", "worse", ("right", "unknown")),
        ("right", "surrogate", "worse", ("right", "surrogate?")),
        ("wrong", "right", "better", ("WRONG", "right")),
        ("unknown", "right", "better", ("unknown", "right")),
        ("unknown", "wrong", "worse", ("unknown", "WRONG")),
        ("wrong", "unknown", "neutral", ("WRONG", "unknown")),  # not to know is no improvement
    ],
)
def test_a_verdict_that_changed(before: str, after: str, turn: str | None, words):
    found = compare(session(verdict(before)), session(verdict(after)))
    assert [(c.turn, c.before, c.after) for c in found.gradients] == ([(turn, *words)] if turn else [])
    assert found.worse is (turn == "worse")


def test_a_verdict_is_that_of_an_input_over_all_its_specimens():
    old = session(verdict("right"), verdict("right", "w"))
    assert changes(old, session(verdict("right"), verdict("wrong", "w"))) == [("worse", "w", "right", "WRONG")]
    one_more = session(verdict("right"), verdict("unknown", specimen="s1"), verdict("right", "w"))
    assert changes(old, one_more) == []  # an input more, on which nothing is known, takes nothing back
    one_wrong = session(verdict("right"), verdict("wrong", specimen="s1"), verdict("right", "w"))
    assert changes(old, one_wrong) == [("worse", "x", "right", "WRONG")]
    assert changes(old, session(verdict("right"))) == [("worse", "w", "right", "not examined")]


def test_a_function_that_is_no_longer_examined_is_worse_and_says_why():
    gap = (NotExamined("the gradient of Scale", "no specimen could be kept"),)
    found = compare(session(verdict("right")), session(not_examined=gap))
    (change,) = found.gradients
    assert (change.turn, change.input, change.after) == ("worse", "", "not examined")
    assert change.before.startswith("right") and change.why == "no specimen could be kept"
    assert found.worse
    assert not compare(session(), session(not_examined=gap)).worse  # nor was it before


@pytest.mark.parametrize(
    ("text", "turn", "after"),
    [
        ("import torch\n", "neutral", "not in the new session"),
        ("class Scaled(Function):\n    pass\n", "neutral", "not in the new session"),
        ("if True:\n    class Scale(Function):\n        pass\n", "worse", "not examined"),
    ],
    ids=["gone", "a longer name", "still there"],
)
def test_a_function_that_is_gone_from_the_text_is_told_from_one_that_is_not_met(text: str, turn: str, after: str):
    new = session(functions=(), sources=(Source("train.py", "0", text),))
    (change,) = compare(session(verdict("right")), new).gradients
    assert (change.turn, change.after) == (turn, after)


def test_a_new_function_is_worse_only_if_it_is_wrong():
    old = session(functions=())
    assert changes(old, session(verdict("right")))[0][0] == "neutral"
    assert changes(old, session(verdict("wrong")))[0][0] == "worse"
    assert changes(old, session()) == []


def test_a_gradient_that_is_declared_a_surrogate_is_not_worse():
    declared = DeclaredSurrogate(id="d", subject="subject Scale", reason="straight through")
    found = compare(session(verdict("wrong")), session(verdict("wrong"), declared))
    assert [(c.turn, c.before, c.after) for c in found.gradients] == [("neutral", "WRONG", "declared surrogate")]


def test_functions_pair_by_name_and_file_wherever_they_stand():
    old = session(verdict("right"), verdict("wrong", name="Other"), functions=("Scale", "Other"))
    new = session(verdict("wrong", name="Other"), verdict("right"), functions=("Other", "Scale"), line=90)
    assert changes(old, new) == []
    moved = dataclasses.replace(
        new, subjects=tuple(dataclasses.replace(s, location=Location("layers.py", 3)) for s in new.subjects)
    )
    assert changes(old, moved) == []


# --- times -----------------------------------------------------------------------------------------------------------


def calls(forward: float, backward: float, many: int = 40) -> FunctionCalls:
    """Seconds of one call each."""
    return MAKE.calls("Scale", forward * many, backward * many, forward_calls=many, backward_calls=many)


def specimen(*shape: int) -> Specimen:
    return Specimen("s", "subject Scale", 0, (TensorSpec("x", shape, "float32"),))


def test_times_are_those_of_a_call_and_decide_nothing():
    old, new = session(calls(1e-3, 4e-3, 40)), session(calls(1.2e-3, 9e-3, 400))
    (change,) = compare(old, new).times
    assert (change.phase, change.turn, round(change.factor, 3)) == ("backward", "worse", 2.25)
    assert (change.before_seconds, change.after_seconds) == pytest.approx((4e-3, 9e-3))
    assert not compare(old, new).worse
    assert compare(old, new, times_gate=True).worse
    assert not compare(new, old, times_gate=True).worse  # faster
    assert [c.turn for c in compare(new, old).times] == ["better"]


def test_small_differences_are_the_clocks():
    assert compare(session(calls(1e-3, 1e-3)), session(calls(1.49e-3, 1.51e-3))).times[0].phase == "backward"
    assert len(compare(session(calls(1e-3, 1e-3)), session(calls(1.49e-3, 1.51e-3)), factor=1.4).times) == 2
    assert compare(session(calls(5e-6, 5e-6)), session(calls(20e-6, 20e-6))).times == ()
    assert compare(session(calls(0.0, 0.0)), session(calls(1.0, 1.0))).times == ()  # never called before


@pytest.mark.parametrize(
    ("shapes", "same"), [(((8, 8), (8, 8)), True), (((8, 8), (64, 8)), False), (((8, 8), None), None)]
)
def test_times_on_other_inputs_say_so(shapes, same: bool | None):
    old, new = (
        session(calls(1e-3, time), specimens=(specimen(*shape),) if shape else ())
        for time, shape in zip((1e-3, 8e-3), shapes, strict=True)
    )
    assert [c.same_inputs for c in compare(old, new).times] == [same]


def test_times_as_far_apart_as_numbers_go_are_printed():
    """What a spoilt session may hold."""
    for before, after in ((1e308, 5e-324), (5e-324, 1e308), (1e-3, float("inf")), (float("nan"), 1e-3)):
        found = compare(session(calls(before, before, 1)), session(calls(after, after, 1)))
        assert as_text(found, width=80, color=False)
        json.loads(as_json(found))
