"""A recorded forward gives, for any cotangents, what whole calls give; chance and the graph are under control."""

import pytest
import torch

from gradwright.checking.problem import pose
from gradwright.checking.recorded import Recorded, anew, calm, plain, redrawn

X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return 3 * cotangent * ctx.saved_tensors[0]  # not 2


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * (torch.rand_like(x) < 0.5)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * torch.rand_like(cotangent)


@pytest.mark.parametrize("subject", [Square, torch.sin, lambda x: (x.sin(), x.cos())])
def test_one_forward_serves_many_cotangents(subject):
    trial = pose(subject, (X,)).trial
    with calm(trial):
        recorded = Recorded(trial)
        for cotangents in (trial.cotangents, trial.redrawn(3), trial.cotangents):
            assert torch.equal(recorded.gradient(cotangents)[0], trial.gradient(cotangents)[0])


def test_an_undefined_cotangent_counts_for_nothing():
    trial = pose(lambda x: (x.sin(), x**2), (X,)).trial
    first, second = trial.cotangents
    both = anew(trial, [first, None])[0] + anew(trial, [None, second])[0]
    assert torch.allclose(both, anew(trial, [first, second])[0])
    assert not anew(trial, [None, None])[0].any()


def test_a_fresh_call_is_the_same_call_and_chance_can_be_changed_in_the_middle():
    trial = pose(Masked, (X,)).trial
    assert torch.equal(anew(trial, trial.cotangents)[0], anew(trial, trial.cotangents)[0])
    assert not torch.equal(anew(trial, trial.cotangents)[0], redrawn(trial, trial.cotangents, 1)[0])


def test_the_random_state_is_restored():
    trial, state = pose(Masked, (X,)).trial, torch.get_rng_state()
    redrawn(trial, trial.cotangents, 1)
    assert torch.equal(torch.get_rng_state(), state)


def test_torchs_own_derivative_of_a_function_is_that_of_its_forward():
    trial = pose(Square, (X,)).trial
    own, theirs = anew(trial, trial.cotangents)[0], anew(trial, trial.cotangents, plain(trial))[0]
    assert torch.allclose(own, 1.5 * theirs)


def test_a_callable_is_torchs_own_unless_a_custom_node_is_in_its_graph():
    assert plain(pose(torch.sin, (X,)).trial) is not None
    assert plain(pose(lambda x: Square.apply(x).sin(), (X,)).trial) is None
