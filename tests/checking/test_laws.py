"""Every law holds for a linear backward and fails for one that breaks it, and only then."""

import pytest
import torch

from gradwright.checking.laws import PARTS, SIGN, SUM, ZERO, Laws
from gradwright.checking.problem import pose

X = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)


def laws_of(change, x=X):
    class Subject(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, cotangent):
            return 2 * change(cotangent)

    problem = pose(Subject, (x,))
    return Laws(problem.trial, problem.baseline)


def broken(change, x=X):
    return {name for name, law in laws_of(change, x).all() if law(0)}


@pytest.mark.parametrize("x", [X, X[0], X[:0], X.float(), X.bfloat16(), X.to(torch.complex128)])
def test_all_laws_hold_for_what_is_linear(x):
    assert broken(lambda g: g.roll(1) if g.dim() else g, x) == set()


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (lambda g: g + 1, ZERO),
        (lambda g: g.abs(), SIGN),
        (lambda g: g**3 / 9, SUM),
        (lambda g: g.norm() * g / 5, PARTS),
        (lambda g: g.clamp(-1e8, 1e8), "B(2^30 g) = 2^30 B(g)"),
        (lambda g: torch.where(g.abs() < 1e-3, 0.0, g), "B(2^-20 g) = 2^-20 B(g)"),
    ],
)
def test_each_law_is_broken_by_something(change, law):
    assert law in broken(change)


def test_thresholds_break_the_scales_beyond_them_alone():
    assert broken(lambda g: g.clamp(-1e8, 1e8)) == {"B(2^30 g) = 2^30 B(g)"}


def test_a_solvers_absolute_tolerance_is_allowed_where_the_sum_shows_it():
    """Off by 1e-6 whatever it solves: too much for the smallest scale, but for that."""
    assert broken(lambda g: g + 1e-7 * torch.sin(1e3 * g)) == set()


def test_an_offset_and_a_deaf_gradient_are_told_apart():
    offset, deaf, bent = laws_of(lambda g: g + 1), laws_of(torch.ones_like), laws_of(torch.cosh)
    assert (offset.is_offset(0), offset.is_deaf(0)) == (True, False)
    assert deaf.is_deaf(0)
    assert (bent.is_offset(0), bent.is_deaf(0)) == (False, False)
