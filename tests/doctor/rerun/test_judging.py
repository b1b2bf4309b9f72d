"""What a trial has shown is judged: a proof where nothing speaks against the change, else the counterexample."""

import math
from dataclasses import replace

import pytest

from gradwright.doctor.rerun.trial.judging import judged, unlike
from gradwright.doctor.rerun.trial.request import Outcome
from gradwright.doctor.session.model import Proof

LOSSES = [2.0, 1.5, math.nan]
GOOD = Outcome(
    losses=[2.0, 1.5, 1.25, 1.0], evaluations=[0, 1, 2, 3], compared=(12, 12), wants_gradient=True, worst=1e-7,
    tolerance=1e-4, lines=(7, 7),
)  # fmt: skip


def begin(line: int, phase: str = "backward", path: str = "train.py") -> dict:
    return {"place": {"path": path, "line": line}, "value": "nan", "operation": "sqrt", "phase": phase}


def test_a_change_that_nothing_speaks_against_is_verified_on_what_was_compared() -> None:
    proof = judged(GOOD, LOSSES, 2, "train.py")
    assert isinstance(proof, Proof)
    assert (proof.verdict, proof.worst_error, proof.mutants_rejected) == ("verified", 1e-7, 0)
    assert proof.run == "a run of the script (2 losses until it broke as before, 2 backwards from there on finite)"


AGAINST = {
    "it differs at the place": (replace(GOOD, differs="its value was 1 and is 2"), "its value was 1 and is 2"),
    "the script raises": (replace(GOOD, error="the script raises TypeError: x"), "the script raises TypeError: x"),
    "a loss before": (replace(GOOD, losses=[2.0, 1.6, 1.0]), "the loss of backward 1 was 1.5, is 1.6"),
    "a loss that is missing": (replace(GOOD, losses=[2.0]), "the loss of backward 1 was 1.5, is none"),
    "a loss that is NaN before": (replace(GOOD, losses=[2.0, math.nan, 1.0]), "the loss of backward 1 was 1.5, is nan"),
    "a loss that is NaN still": (replace(GOOD, losses=[2.0, 1.5, math.nan]), "the loss of backward 2 is nan"),
    "it ended too early": (replace(GOOD, losses=[2.0, 1.5]), "the script ended before the step in which it broke"),
    "it could not be watched": (replace(GOOD, faults=["KeyError: 1"]), "its run could not be watched: KeyError: 1"),
    "never evaluated": (replace(GOOD, evaluations=[3]), "the place was not reached before the script broke"),
    "no value compared": (replace(GOOD, compared=(0, 3)), "there was no finite value or gradient at the place"),
    "no gradient compared": (replace(GOOD, compared=(3, 0)), "there was no finite value or gradient at the place"),
    "again": (replace(GOOD, begin=begin(7), begin_call=2), "NaN begins in sqrt at train.py:7 again"),
    "again later": (replace(GOOD, begin=begin(7), begin_call=4), "NaN begins in sqrt at train.py:7 again"),
    "earlier": (replace(GOOD, begin=begin(9), begin_call=1), "at train.py:9, earlier than before"),
    "behind it": (replace(GOOD, begin=begin(9, "forward"), begin_call=2), "at train.py:9 instead"),
    "in what feeds it": (replace(GOOD, begin=begin(3), begin_call=2, fed_it=True), "at train.py:3 instead"),
}


@pytest.mark.parametrize("name", AGAINST)
def test_whatever_speaks_against_it_is_told(name: str) -> None:
    outcome, told = AGAINST[name]
    verdict = judged(outcome, LOSSES, 2, "train.py")
    assert isinstance(verdict, str) and told in verdict, verdict


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (replace(GOOD, begin=begin(9), begin_call=2), "NaN begins in sqrt at train.py:9 too"),
        (replace(GOOD, begin=begin(7, path="other.py"), begin_call=2), "NaN begins in sqrt at other.py:7 too"),
        (replace(GOOD, begin=begin(9, "forward"), begin_call=4), "at train.py:9 in backward 4, a later step"),
    ],
)
def test_a_fault_of_another_place_is_told_with_the_proof(at: Outcome, told: str) -> None:
    proof = judged(at, LOSSES, 2, "train.py")
    assert isinstance(proof, Proof)
    assert "from there on finite at this place, but " in proof.run and told in proof.run


def test_what_was_read_together_from_several_places_needs_a_loss_that_shows_it() -> None:
    first = replace(GOOD, losses=[1.0, 0.5], evaluations=[0])
    assert isinstance(judged(first, [math.nan], 0, "train.py"), Proof)
    assert judged(first, [math.nan], 0, "train.py", opened=True) == "it broke before there was a loss to compare"


def test_losses_are_compared_up_to_the_break_and_where_they_were_finite() -> None:
    assert unlike([1.0, None, 3.0, math.nan], [1.0, 5.0, 3.0003, 7.0], 3) == (pytest.approx(1e-4), 2)
    assert unlike([1.0, 2.0], [1.0, 9.0], 0) == (0.0, 1)
    assert unlike([1e-9, 1.0, 1.0], [2e-9, 1.0, 1.0], 2) == (pytest.approx(1e-9), 3)  # by the size of the others
