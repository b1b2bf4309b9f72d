"""Finite differences know their own error, and know a kink when they stand on one."""

import pytest
import torch

from gradwright.checking.oracles.differences import moved_share, slope
from gradwright.checking.trial import settle


def along(subject, x):
    trial = settle(subject, [x], [0], seed=0, deadline=None)
    direction = torch.ones(x.numel(), dtype=torch.float64)
    return trial, slope(trial, 0, direction, 1e-8)


@pytest.mark.parametrize("subject", [torch.sin, torch.exp, torch.tanh, lambda x: x**3])
def test_a_smooth_slope_is_found_within_its_error(subject):
    x = torch.linspace(-1, 2, 7)
    trial, found = along(subject, x)
    truth = float(trial.gradient()[0].sum())
    assert abs(found.value - truth) <= 2 * found.error + 1e-9
    assert found.error < 1e-6
    assert not found.kinked


@pytest.mark.parametrize("subject", [torch.relu, torch.abs, lambda x: torch.maximum(x, 2 * x)])
def test_a_kink_is_seen_and_bounded(subject):
    trial, found = along(subject, torch.zeros(4))
    assert found.kinked
    assert found.low <= float(trial.gradient()[0].sum()) <= found.high


def test_rounding_inside_makes_the_error_larger_not_the_value_wrong():
    _, found = along(lambda x: x.float().exp().to(x.dtype), torch.linspace(-1, 1, 5))
    _, exact = along(torch.exp, torch.linspace(-1, 1, 5))
    assert abs(found.value - exact.value) <= 3 * found.error
    assert found.error > 10 * exact.error


def test_a_search_that_ends_early_is_judged_with_wider_steps():
    trial, found = along(lambda x: x + (x.detach() / 1e-7).round() * 1e-7, torch.linspace(0.5, 1, 50))
    assert found.value == pytest.approx(2 * float(trial.gradient()[0].sum()), rel=1e-3)


def test_what_stands_still_is_seen_to():
    trial, found = along(lambda x: x.round() + 0 * x, torch.linspace(0.6, 0.9, 4))
    assert found.still
    assert moved_share(trial, 0, torch.ones(4, dtype=torch.float64), 0.45) == 1.0
