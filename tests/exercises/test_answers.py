"""Right answers pass, stubs and wrong answers are told what is wrong with them."""

from __future__ import annotations

import pytest
from tests.exercises.also_right import ALSO_RIGHT, HEAD
from tests.exercises.planted import PLANTED, Planted

from gradwright.exercises.catalog import Exercise, all_exercises

EXERCISES = pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)


@EXERCISES
@pytest.mark.parametrize("seed", [0, 1])
def test_the_solution_passes(exercise: Exercise, seed: int, grade) -> None:
    outcome = grade(exercise.number, exercise.solution, seed=seed)
    assert outcome.failure is None and outcome.passed
    assert all(step.said for step in outcome.steps)


@EXERCISES
def test_the_stub_does_not(exercise: Exercise, grade) -> None:
    outcome = grade(exercise.number, exercise.stub)
    assert not outcome.passed and outcome.failure is not None
    runs = "NotImplementedError" not in exercise.stub
    assert ("loops over the" if runs else "still the stub") in outcome.failure.what
    assert exercise.file in outcome.failure.where


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: f"{planted.number} {planted.fault}")
def test_a_wrong_answer_is_told_why(planted: Planted, grade) -> None:
    outcome = grade(planted.number, planted.text)
    assert not outcome.passed and outcome.failure is not None
    failed = [step.name for step in outcome.steps if step.passed is False]
    assert failed and failed[0] == planted.step, outcome.failure
    told = " ".join((outcome.failure.code, outcome.failure.what, outcome.failure.cause, outcome.failure.why))
    for words in planted.words:
        assert words in told + outcome.failure.do, outcome.failure


@pytest.mark.filterwarnings("ignore:var")  # torch says so of no rows
@pytest.mark.parametrize(("number", "style"), ALSO_RIGHT, ids=str)
def test_another_right_answer_passes(number: int, style: str, grade) -> None:
    outcome = grade(number, HEAD + ALSO_RIGHT[number, style])
    assert outcome.failure is None and outcome.passed


def test_every_exercise_has_wrong_answers() -> None:
    for exercise in all_exercises():
        assert len([planted for planted in PLANTED if planted.number == exercise.number]) >= 2


def test_an_answer_that_knows_the_inputs_by_heart_is_none(grade) -> None:
    """Inputs are drawn anew for every grading: what was right for those of one seed is not for those of another."""
    text = """
import torch
from gradwright.exercises.grading.inputs import Draws
from gradwright.exercises.tasks.e08_logsumexp import GRADING
KNOWN = [(case.exact()[0].detach(), GRADING.reference(*case.exact())) for case in GRADING.cases(Draws(0))]
def log_sum_exp(x):
    for known, value in KNOWN:
        if known.shape == x.shape and torch.equal(known, x.detach().double()):
            return value.to(x.dtype) + x.sum(1) * 0
    return x.sum(1)
"""
    by_heart, anew = grade(8, text, seed=0), grade(8, text, seed=1)
    assert [step.passed for step in by_heart.steps][:2] == [True, False]  # its gradient gives it away all the same
    assert anew.steps[0].passed is False


def test_a_right_answer_is_held_to_the_clock(grade) -> None:
    outcome = grade(5, next(one.solution for one in all_exercises() if one.number == 5), timed=True)
    assert outcome.passed and outcome.speed is not None
    assert outcome.speed.yours > 0 and outcome.speed.solution > 0 and outcome.speed.builtin
    assert outcome.speed.of == "[20000], [20000]"
