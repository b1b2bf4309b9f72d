"""A profile finds the jumps, the kinks, the falls and the period of a loss along a ray, and nothing on a smooth one."""

import pytest
import torch

from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.losses.profile import Profile
from gradwright.checking.losses.rays import rays

SAMPLE = Sample(torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))


def profile_of(function, side=1):
    loss = Loss(lambda prediction, target: function(prediction - target).mean())
    ray = next(ray for ray in rays("regression", SAMPLE) if ray.side == side)
    return Profile(loss, ray, ordinary=1.0)


@pytest.mark.parametrize(
    ("at", "step"), [(0.123, 0.5), (0.123, -0.01), (1.0, -0.01), (2.5, 0.5), (17.0, -0.01), (400.0, 0.5)]
)
def test_a_jump_is_located(at, step):
    profile = profile_of(lambda e: e.abs() + step * (e.abs() > at))
    (jump,) = profile.jumps
    assert jump.at == pytest.approx(at, rel=1e-6)
    assert jump.after - jump.before == pytest.approx(step, rel=1e-3)


@pytest.mark.parametrize("at", [0.123, 1.0, 17.0])
def test_a_kink_is_located_and_is_no_jump(at):
    profile = profile_of(lambda e: torch.where(e.abs() < at, 2 * e.abs(), e.abs() + at))
    assert not profile.jumps
    (kink,) = profile.kinks
    assert (kink.at, kink.before, kink.after) == pytest.approx((at, 2.0, 1.0), rel=1e-4)


SMOOTH = {
    "square": lambda e: e**2,
    "huber": lambda e: torch.nn.functional.huber_loss(e, torch.zeros_like(e), reduction="none"),
    "log-cosh": lambda e: e + torch.nn.functional.softplus(-2 * e),
    "welsch": lambda e: 1 - torch.exp(-(e**2)),
    "root": lambda e: e.abs().sqrt(),
    "fourth power": lambda e: e**4,
    "exponential": lambda e: torch.exp(e.clamp(max=50)) - e,
}


@pytest.mark.parametrize("function", SMOOTH.values(), ids=SMOOTH.keys())
def test_a_smooth_loss_has_no_jump_and_does_not_fall(function):
    profile = profile_of(function)
    assert not profile.jumps and not profile.falls


def test_a_jump_of_one_sign_is_seen_from_that_side_only():
    assert not profile_of(lambda e: e**2 + (e < -2), side=1).jumps
    assert profile_of(lambda e: e**2 + (e < -2), side=-1).jumps


def test_where_it_falls_and_how_far():
    (fall,) = profile_of(lambda e: torch.where(e.abs() < 2, e.abs(), 4 - e.abs().clamp(max=3))).falls
    assert (fall.start, fall.end) == pytest.approx((2.0, 3.0), abs=0.1)
    assert (fall.high, fall.low) == pytest.approx((2.0, 1.0), abs=0.1)


def test_the_period_of_an_angle():
    assert profile_of(lambda e: 1 - torch.cos(e)).period == pytest.approx(2 * torch.pi, rel=1e-4)
    assert profile_of(lambda e: e.abs() * torch.exp(-e.abs())).period is None
