"""REINFORCE: the policy gradient, with a baseline that is no part of it."""

import math
from typing import Any

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.losses.reinforcement.reinforce import REINFORCELoss, reference, reinforce_loss

_P = torch.tensor([-0.5, -2.0, -1e4])
_R = torch.tensor([1.0, -3.0, 1e4])


def test_the_gradient_is_minus_the_advantage_and_reaches_log_prob_alone() -> None:
    log_prob, reward, baseline = (each.clone().requires_grad_() for each in (_P, _R, torch.ones(3)))
    loss = reinforce_loss(log_prob, reward, baseline, "sum")
    loss.backward()
    assert log_prob.grad is not None and log_prob.grad.tolist() == [0.0, 4.0, -9999.0]
    assert reward.grad is None and baseline.grad is None


def test_the_expected_gradient_of_a_policy_is_that_of_its_expected_reward_whatever_the_baseline() -> None:
    logits = torch.tensor([0.3, -1.0, 0.7], dtype=torch.float64, requires_grad=True)
    reward = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    known = torch.autograd.grad((logits.softmax(0) * reward).sum(), logits)[0]
    for baseline in (None, 5.0, torch.tensor(-2.0)):
        each = reinforce_loss(logits.log_softmax(0), reward, baseline, "none")
        expected = (logits.detach().softmax(0) * each).sum()
        torch.testing.assert_close(-torch.autograd.grad(expected, logits)[0], known)


def test_value_and_gradient_are_those_of_float64_over_all_magnitudes() -> None:
    size = torch.logspace(-8, 4, 100)
    log_prob = (-size).repeat(100).requires_grad_()
    reward = torch.cat([size, -size])[::2].repeat_interleave(100)
    found = reinforce_loss(log_prob, reward, 0.5, "none")
    (slope,) = torch.autograd.grad(found.sum(), log_prob)
    advantage = (reward - 0.5).double()
    torch.testing.assert_close(found.double(), -advantage * log_prob.double(), rtol=2e-7, atol=0)
    torch.testing.assert_close(slope.double(), -advantage, rtol=0, atol=0)


@pytest.mark.parametrize("baseline", [None, 2, 0.5, torch.tensor(2.0), torch.tensor([1.0, 2.0, 3.0])], ids=str)
def test_the_reference_and_the_module_agree(baseline) -> None:
    each = reference(_P, _R, baseline)
    torch.testing.assert_close(reinforce_loss(_P, _R, baseline, "none"), each)
    assert REINFORCELoss()(_P, _R, baseline).item() == pytest.approx(each.mean().item())
    assert REINFORCELoss().plan(_P.clone().requires_grad_(), _R, baseline).backend == "numba"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.float64])
def test_rewards_may_be_of_any_numbers(dtype: torch.dtype) -> None:
    log_prob = _P.clone().requires_grad_()
    loss = reinforce_loss(log_prob, torch.tensor([1, 0, 1], dtype=dtype))
    loss.backward()
    assert loss.item() == pytest.approx(1e4 / 3 + 0.5 / 3)
    assert log_prob.grad is not None and log_prob.grad.dtype is torch.float32


def test_steps_after_an_episodes_end_do_not_count_and_may_be_impossible() -> None:
    log_prob = torch.tensor([[-1.0, -math.inf], [-2.0, math.nan]], requires_grad=True)
    reward = torch.tensor([[2.0, 0.0], [3.0, math.nan]])
    loss = reinforce_loss(log_prob, reward, mask=torch.tensor([[True, False], [True, False]]))
    loss.backward()
    assert loss.item() == 4.0
    assert log_prob.grad is not None and log_prob.grad.tolist() == [[-1.0, 0.0], [-1.5, 0.0]]


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", math.nan)])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    log_prob = _P.clone().requires_grad_()
    masked = reinforce_loss(log_prob, _R, mask=torch.zeros(3, dtype=torch.bool), empty=empty)
    assert masked.item() == pytest.approx(value, nan_ok=True)
    assert reinforce_loss(_P[:0], _R[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        assert not torch.autograd.grad(masked, log_prob)[0].any()


REFUSED: dict[str, dict[str, Any]] = {
    "log_prob has shape [3], reward [3, 1]": {"reward": _R[:, None]},
    "log_prob has shape [3], baseline [1]": {"baseline": torch.ones(1)},
    "log_prob is int64[3]": {"log_prob": torch.ones(3, dtype=torch.int64)},
    "reward is complex64[3]": {"reward": _R.to(torch.complex64)},
    "reward is a float": {"reward": 1.0},
    "reward is NaN: nan at [0]": {"reward": torch.tensor([math.nan, 1.0, 1.0])},
    "baseline is NaN: nan at [1]": {"baseline": torch.tensor([1.0, math.nan, 1.0])},
    "mask is int64[3]": {"mask": torch.ones(3, dtype=torch.int64)},
    "reduction is 'max'": {"reduction": "max"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(UsageError) as caught:
        reinforce_loss(**{"log_prob": _P, "reward": _R, **REFUSED[message]})
    assert str(caught.value).startswith(message)
