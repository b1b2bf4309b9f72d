"""The boundary points of a call."""

import torch

from gradwright.checking.points import boundary_points, mask_points
from gradwright.checking.problem import pose


def points(*args, names=("q", "mask")):
    trial = pose(lambda *xs: sum(x.sum() for x in xs if x.is_floating_point()) * 1.0, args).trial
    return {point.told(names): point for point in (*boundary_points(trial, 0), *mask_points(trial))}


def test_they_are_named_by_what_is_special_in_them():
    found = points(torch.tensor([3.0, -4.0]), torch.tensor([True, False]))
    assert set(found) == {
        "q = 0", "one entry of q = 0", "q all equal (ties)", "two entries of q equal (ties)", "q = -0.0", "q = 1",
        "|q| = 1e-08", "q = 1e4", "q = -1e4", "q = 1e6", "q = -1e6",
        "q = 1e8", "q = -1e8", "mask all False", "mask all True",
    }  # fmt: skip


def test_they_are_exactly_that():
    found = points(torch.tensor([3.0, -4.0]))
    assert found["q = 0"].args[0].tolist() == [0.0, 0.0]
    assert found["one entry of q = 0"].args[0].tolist() == [3.0, 0.0]
    assert found["one entry of q = 0"].entries.tolist() == [1]
    assert bool(torch.signbit(found["q = -0.0"].args[0]).all())
    assert len(set(found["q all equal (ties)"].args[0].tolist())) == 1
    assert found["q = -1e8"].args[0].max() < -1e7


def test_a_complex_input_stays_complex_everywhere():
    x = torch.complex(torch.tensor([3.0, 1.0]), torch.tensor([-4.0, 0.5]))
    trial = pose(lambda x: (x * x.conj()).real.sum(), (x,)).trial
    assert all(point.args[0].is_complex() for point in boundary_points(trial, 0))


def test_a_mask_of_minus_infinity_is_one_too():
    x = torch.randn(3).requires_grad_()
    trial = pose(lambda x, m: x.sum() + m.exp().sum(), (x, torch.tensor([0.0, float("-inf")]))).trial
    assert [point.told(("x", "m")) for point in mask_points(trial)] == ["m all -inf"]
