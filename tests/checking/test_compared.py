"""Gradients beside each other: rounding is no difference, what does not last is none, NaN and raises are."""

import math

import torch

from gradwright.checking.compared import Apart, Yardstick, attempt, lasting
from gradwright.checking.problem import pose

X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def yardstick(subject=torch.sin, baseline=None):
    problem = pose(subject, (X,))
    return Yardstick(problem.trial, problem.baseline if baseline is None else {0: baseline})


def vector(*entries):
    return {0: torch.tensor(entries, dtype=torch.float64)}


def test_rounding_is_no_difference_and_more_is_one_at_its_entry():
    rule = yardstick(baseline=vector(1.0, 2.0, 3.0)[0])
    assert rule.apart(vector(1, 2, 3 + 1e-12), vector(1, 2, 3)) is None
    apart = rule.apart(vector(1, 2.5, 3), vector(1, 2, 3))
    assert (apart.index, apart.entry, apart.found, apart.expected) == (0, 1, 2.5, 2.0)


def test_nan_is_a_difference_where_the_baseline_is_finite():
    rule = yardstick(baseline=vector(1.0, 2.0, math.inf)[0])
    assert math.isnan(rule.apart(vector(math.nan, 2, math.inf), vector(1, 2, math.inf)).found)
    assert rule.apart(vector(1, 2, math.nan), vector(1, 2, math.inf)) is None
    assert rule.apart(vector(1, 2, math.nan), vector(1, 2, 0)) is None


def test_what_cancels_is_rounded_as_its_terms_were():
    rule = yardstick(baseline=vector(1e6, -1e6, 1e6)[0])
    assert rule.apart(vector(1e-9, 0, 0), vector(0, 0, 0)) is None
    assert rule.apart(vector(1e4, 0, 0), vector(0, 0, 0), times=0.5) is not None


def test_a_raise_is_found_in_words():
    def raises():
        raise ValueError("first line\nsecond line")

    assert attempt(raises).raised == "ValueError: first line"


def test_what_alternates_or_drifts_does_not_last():
    calls = iter(range(100))

    def flips():
        return Apart(0) if next(calls) % 2 else None

    assert lasting(flips, flips) is None
    assert lasting(lambda: None, flips) is None
    assert lasting(lambda: Apart(0), lambda: Apart(0)) is None
    assert lasting(lambda: None, lambda: Apart(0, 7)).entry == 7


def test_a_difference_is_told_by_name_place_and_numbers():
    problem = pose(lambda weights: weights.sin(), (X.reshape(1, 3),))
    told = Apart(0, 2, 0.5, 0.25).told(problem)
    assert told == "weights[0, 2]: 0.5 instead of 0.25"
    assert Apart(0, 2).evidence(problem)["at"] == (0, 2)
    assert Apart(raised="ValueError: no").told(problem) == "raises ValueError: no"
