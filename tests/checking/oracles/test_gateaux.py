"""Where there is a derivative, and where only differences that look like one."""

import pytest
import torch

from gradwright.checking.oracles.gateaux import Along, Plane, along, is_steady, plane, slope_of_entry
from gradwright.checking.problem import pose


def at(function, *values):
    return pose(function, (torch.tensor(values, dtype=torch.float64),)).trial


def plane_at(function, *values, seed=0):
    trial = at(function, *values)
    return plane(trial, 0, torch.arange(len(values)), torch.Generator().manual_seed(seed))


SMOOTH = [torch.sin, lambda x: x**2, lambda x: x**3, lambda x: x.prod(), lambda x: 0 * x,
          torch.sinc]  # fmt: skip
NOT = [torch.abs, torch.relu, lambda x: x.abs().sqrt(), lambda x: x.norm(), lambda x: x.max(), lambda x: x.median(),
       torch.sign, torch.floor, lambda x: (x + 0).abs() ** 0.5 * x.sign(), lambda x: x.sort().values]  # fmt: skip


@pytest.mark.parametrize("function", SMOOTH)
def test_a_derivative_at_zero_is_found_and_is_right(function):
    found = plane_at(function, 0.0, 0.0, 0.0)
    assert isinstance(found, Plane)
    x = torch.full((3,), 1e-9, dtype=torch.float64, requires_grad=True)
    trial = at(function, 0.0, 0.0, 0.0)
    (true,) = torch.autograd.grad(function(x), x, trial.cotangents)
    for direction, slope in zip(found.directions, found.slopes, strict=True):
        assert slope.value == pytest.approx(float(true @ direction), abs=1e-6)


@pytest.mark.parametrize("function", NOT)
def test_where_there_is_none_none_is_found(function):
    for seed in range(8):
        assert not isinstance(plane_at(function, 0.0, 0.0, 0.0, seed=seed), Plane)


def test_an_infinite_slope_that_is_symmetric_is_not_taken_for_zero():
    found = along(at(lambda x: x.abs().sqrt(), 0.0), 0, torch.ones(1, dtype=torch.float64))
    assert isinstance(found, Along) and not found.smooth and not found.kinked


def test_a_kink_is_told_with_its_two_sides():
    trial = at(lambda x: x.abs() * 3, 0.0)
    found = along(trial, 0, torch.ones(1, dtype=torch.float64))
    assert found.kinked and found.high == pytest.approx(3 * abs(float(trial.cotangents[0])))


def test_a_forward_that_refuses_its_neighbours_has_none():
    def careful(x):
        if float(x.detach().min()) < 0:
            raise ValueError("not negative")
        return x**2

    assert slope_of_entry(at(careful, 0.0), 0, 0) is None


def test_a_gradient_that_rounding_changes_is_not_steady():
    generator = torch.Generator().manual_seed(0)
    for function, steady in ((torch.sin, True), (lambda x: torch.sin(x * 1e16) / 1e16, False)):
        trial = at(function, 1.0, 2.0)
        assert is_steady(trial, 0, trial.gradient()[0], 1e-3, generator) is steady
