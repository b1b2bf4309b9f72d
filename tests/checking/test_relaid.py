"""Cotangents and inputs in other layouts: what differs is seen, what a forward refuses is noted."""

import torch

from gradwright.checking.compared import Yardstick
from gradwright.checking.layouts import EXPANDED, EXPANDED_ALONG_LAST, SLICED, TRANSPOSED
from gradwright.checking.problem import pose
from gradwright.checking.recorded import calm, plain
from gradwright.checking.relaid import RelaidCotangents, RelaidInputs, same_values

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class ByRows(torch.autograd.Function):
    """Takes its cotangent for rows of four numbers, one after the other."""

    @staticmethod
    def forward(ctx, x):
        if x.stride(-1) != 1:
            raise ValueError("rows, please")
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        if cotangent.stride() == (0, 0):
            return 2 * cotangent * ctx.saved_tensors[0]
        return 2 * torch.as_strided(cotangent, (3, 4), (4, 1)) * ctx.saved_tensors[0]


def posed(subject):
    problem = pose(subject, (X,))
    return problem.trial, Yardstick(problem.trial, problem.baseline)


def test_what_a_cotangent_is_taken_for_shows_in_the_layouts_that_are_not_it():
    trial, yardstick = posed(ByRows)
    with calm(trial):
        relaid = RelaidCotangents(trial, yardstick)
        assert [relaid.suspect(layout) for layout in (TRANSPOSED, SLICED, EXPANDED)] == [True, True, False]
    assert relaid.lasting(TRANSPOSED).error > 0.1
    assert relaid.lasting(EXPANDED) is None


def test_torchs_own_gradient_can_be_asked_instead():
    trial, yardstick = posed(ByRows)
    with calm(trial):
        theirs = RelaidCotangents(trial, yardstick, plain(trial))
        assert not any(theirs.suspect(layout) for layout in (TRANSPOSED, SLICED, EXPANDED))


def test_what_the_forward_raises_is_noted_and_no_difference():
    trial, yardstick = posed(ByRows)
    relaid = RelaidInputs(trial, yardstick, TRANSPOSED)
    assert relaid.look() is None
    assert relaid.refused == "ValueError: rows, please"
    accepted = RelaidInputs(trial, yardstick, SLICED)
    assert accepted.look() is None
    assert not accepted.refused


def test_an_expanded_input_is_compared_with_the_same_values_dense():
    trial, yardstick = posed(torch.sin)
    relaid = RelaidInputs(trial, yardstick, EXPANDED_ALONG_LAST)
    assert relaid.look() is None
    assert relaid.lasting() is None


def test_values_are_the_same_but_for_a_solvers_tolerance():
    one = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert same_values([one], [one * (1 + 1e-5)])
    assert not same_values([one], [one.flip(0)])
    assert not same_values([one * torch.nan], [one])
    assert not same_values([one[:1]], [one])
