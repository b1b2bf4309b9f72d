"""A verdict keeps the error under each kind of cotangent that was tried; nothing more is called for it."""

import pytest
import torch

import gradwright as gw
from gradwright.checking import judge_values
from gradwright.checking.cotangents import (
    AROUND,
    IN_PLACES,
    NEGATED,
    RANDOM,
    SCALED_DOWN,
    SCALED_UP,
    TWO_ADDED,
    ZEROS,
    Tried,
    tried_under,
    with_tried,
)
from gradwright.checking.laws import Laws
from gradwright.checking.recorded import anew
from gradwright.checking.trial import settle
from gradwright.checking.verdict import AUTOGRAD, DIFFERENCES, EXPECTED

X = torch.linspace(-1.3, 1.7, 12).reshape(4, 3)
ALL = {RANDOM, ZEROS, NEGATED, TWO_ADDED, IN_PLACES, SCALED_DOWN, SCALED_UP}


def square(backward, *, seen=True):
    """x², by torch or (``seen`` False) out of autograd's sight, with this backward(grad_output, x)."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x if seen else torch.from_numpy(x.detach().numpy() ** 2)

    def back(ctx, cotangent):
        return backward(cotangent, *ctx.saved_tensors)

    return type(
        "Square", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(back)}
    )


def errors(subject, **options):
    (verdict,) = gw.check(subject, X, **options).verdicts
    return verdict.verdict, dict(verdict.cotangents)


@pytest.mark.parametrize("seen", [True, False])
def test_what_is_right_is_right_under_every_cotangent(seen):
    verdict, found = errors(square(lambda g, x: 2 * g * x, seen=seen))
    assert verdict == "right" and set(found) == ALL
    assert all(error <= 1e-9 for error in found.values())


def test_half_a_gradient_is_half_wrong_under_every_cotangent_but_zeros():
    verdict, found = errors(square(lambda g, x: g * x))
    assert verdict == "wrong" and set(found) >= ALL
    assert found.pop(ZEROS) == 0
    assert all(error == pytest.approx(0.5) for error in found.values())


def test_an_offset_shows_under_zeros_and_more_under_small_cotangents():
    verdict, found = errors(square(lambda g, x: 2 * g * x + 1))
    assert verdict == "wrong"
    assert found[ZEROS] == pytest.approx(found[RANDOM]) and found[ZEROS] > 0.01
    assert found[SCALED_DOWN] > 1000 * found[RANDOM] and found[SCALED_UP] < 1e-3 * found[RANDOM]


def test_a_clamp_beyond_every_random_cotangent_shows_in_large_ones_alone():
    verdict, found = errors(square(lambda g, x: 2 * g.clamp(-1000, 1000) * x))
    assert verdict == "right"  # of the value; the law of scale is another check's
    assert found[RANDOM] == 0 and found[SCALED_UP] > 0.9


def test_what_is_wrong_beyond_autograds_sight_is_known_where_its_own_truth_is():
    verdict, found = errors(square(lambda g, x: g * x, seen=False))
    assert verdict == "wrong" and found[RANDOM] == pytest.approx(0.5) and IN_PLACES not in found


def test_what_comes_between_is_a_cotangent_of_its_own():
    class Shared(torch.autograd.Function):
        kept = None

        @staticmethod
        def forward(ctx, x):
            Shared.kept = x.detach().clone()
            return x * x

        @staticmethod
        def backward(ctx, cotangent):
            return 2 * cotangent * Shared.kept

    (verdict,) = judge_values(Shared, [X], [True], nested=True)
    found = dict(verdict.cotangents)
    assert verdict.verdict == "wrong" and found[RANDOM] == 0 and found[AROUND] == verdict.error > 0


def test_other_truths_know_the_random_cotangents_alone():
    right = square(lambda g, x: 2 * g * x)
    _, by_formula = errors(right, expect=lambda g, x: 2 * g * x)
    _, by_twin = errors(right, reference=lambda x: x * x)
    assert set(by_formula) == {RANDOM} == set(by_twin)


def test_a_surrogate_and_what_is_unknown_have_no_error():
    step = type("Step", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x.sign()),
                "backward": staticmethod(lambda ctx, g: g)})  # fmt: skip
    assert errors(step) == ("surrogate", {})
    (verdict,) = judge_values(step, [X * float("nan")], [True])
    assert (verdict.verdict, verdict.cotangents) == ("unknown", ())


def test_what_the_laws_tried_is_told_without_another_call():
    trial = settle(square(lambda g, x: 2 * g * x), [X], [0], seed=0, deadline=None)
    laws = Laws(trial, anew(trial, trial.cotangents))
    asked = [(name, law(0)) for name, law in laws.all()]
    calls = trial.calls
    told = [laws.tried(name, 0, None) for name, _ in asked]
    assert {one.cotangents for one in told} == ALL - {RANDOM} and trial.calls == calls
    laws._kept.clear()
    assert laws.tried(asked[0][0], 0, None) is None


def test_a_law_is_held_to_the_truth_that_judged():
    known, tried = ((RANDOM, 0.25),), [Tried(0, ZEROS, 0.0, 0.5), Tried(0, ZEROS, 0.0, 0.125)]
    assert with_tried("wrong", (AUTOGRAD, DIFFERENCES), known, tried) == (*known, (ZEROS, 0.5))
    assert with_tried("right", (DIFFERENCES,), known, tried) == (*known, (ZEROS, 0.0))
    assert with_tried("wrong", (DIFFERENCES,), known, tried) == known
    assert with_tried("right", (EXPECTED,), known, tried) == known
    assert with_tried("unknown", (), (), tried) == ()


def test_what_is_not_finite_is_infinitely_far():
    own, nan = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    assert tried_under(0, NEGATED, nan, own, 2 * own, nothing=False) == Tried(0, NEGATED, float("inf"), float("inf"))
    assert tried_under(0, NEGATED, own, own, 2 * own, nothing=False) == Tried(0, NEGATED, 0.0, 0.5)
    assert tried_under(0, ZEROS, 0 * own, 0 * own, None, nothing=True) == Tried(0, ZEROS, 0.0, None)
