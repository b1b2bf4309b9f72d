"""PPO's clipped loss: where it is clipped, at the extremes of the ratio, and what it refuses."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from gradwright.errors import UsageError
from gradwright.losses.reinforcement.ppo_clip import PPOClipLoss, ppo_clip_loss, reference

_P = torch.tensor([-1.0, -2.0, -0.5])
_OLD = torch.tensor([-1.1, -1.0, -3.0])
_A = torch.tensor([1.0, -2.0, 0.5])


def _called(difference: float, advantage: float, **options: float) -> tuple[float, float]:
    """Value and gradient of one action."""
    log_prob = torch.tensor([difference], requires_grad=True)
    loss = ppo_clip_loss(log_prob, torch.zeros(1), torch.tensor([advantage]), **options)
    (slope,) = torch.autograd.grad(loss, log_prob)
    return loss.item(), slope.item()


@pytest.mark.parametrize(
    "ratio, advantage, value, slope",
    [
        (1.5, 2.0, -2.4, 0.0),  # better already, by more than is trusted
        (1.1, 2.0, -2.2, -2.2),
        (0.5, 2.0, -1.0, -1.0),  # good, and less likely than it was: no bound
        (0.5, -2.0, 1.6, 0.0),
        (0.9, -2.0, 1.8, 1.8),
        (1.5, -2.0, 3.0, 3.0),
        (1.0, 2.0, -2.0, -2.0),  # the policy that acted: the whole policy gradient, and not half of it
    ],
)
def test_it_is_clipped_where_the_policy_has_moved_far_enough(
    ratio: float, advantage: float, value: float, slope: float
) -> None:
    assert _called(math.log(ratio), advantage) == (pytest.approx(value), pytest.approx(slope))


@pytest.mark.parametrize("advantage, sign", [(2.0, 1), (-2.0, -1)])
def test_a_ratio_on_the_bound_counts(advantage: float, sign: int) -> None:
    log_prob = torch.tensor([sign * math.log(1.5)], dtype=torch.float64, requires_grad=True)
    others = torch.zeros(1, dtype=torch.float64), torch.tensor([advantage], dtype=torch.float64)
    clip = abs(log_prob.exp().item() - 1)
    for loss in (ppo_clip_loss, reference):
        (slope,) = torch.autograd.grad(loss(log_prob, *others, clip=clip).sum(), log_prob)
        assert slope.item() == pytest.approx(-advantage * log_prob.exp().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_those_of_float64_over_all_magnitudes(dtype: torch.dtype) -> None:
    size = torch.logspace(-8, 1.5, 60, dtype=dtype)
    difference = torch.cat([-size, size]).repeat(120).requires_grad_()
    much = torch.logspace(-8, 4, 60, dtype=dtype)
    advantage = torch.cat([-much, much]).repeat_interleave(120)
    found = ppo_clip_loss(difference, torch.zeros_like(difference), advantage, reduction="none")
    (slope,) = torch.autograd.grad(found.sum(), difference)
    wide = difference.detach().double().requires_grad_()
    known = reference(wide, torch.zeros_like(wide), advantage.double())
    (true,) = torch.autograd.grad(known.sum(), wide)
    near = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 0}
    torch.testing.assert_close(found.double(), known, **near)
    torch.testing.assert_close(slope.double(), true, **near)


def test_extremes_of_the_ratio() -> None:
    assert _called(1e4, 1.0) == (pytest.approx(-1.2), 0.0)
    assert _called(-1e4, -1.0) == (pytest.approx(0.8), 0.0)
    assert _called(-1e4, 1.0) == (0.0, 0.0)
    assert _called(1e4, 0.0) == (0.0, 0.0)
    assert _called(1e4, -1.0) == (math.inf, math.inf)
    assert _called(1e4, -1.0, dual_clip=3.0) == (3.0, 0.0)
    assert _called(math.log(2.0), -1.0, dual_clip=3.0) == (pytest.approx(2.0), pytest.approx(2.0))


def test_the_gradient_reaches_log_prob_alone() -> None:
    log_prob, old, advantage = (each.clone().requires_grad_() for each in (_P, _OLD, _A))
    ppo_clip_loss(log_prob, old, advantage).backward()
    assert log_prob.grad is not None and old.grad is None and advantage.grad is None


@pytest.mark.parametrize("dual_clip", [None, 1.5])
def test_the_reference_and_the_module_agree(dual_clip: float | None) -> None:
    each = reference(_P, _OLD, _A, 0.3, dual_clip)
    torch.testing.assert_close(ppo_clip_loss(_P, _OLD, _A, 0.3, "none", dual_clip=dual_clip), each)
    module = PPOClipLoss(0.3, dual_clip=dual_clip)
    assert module(_P, _OLD, _A).item() == pytest.approx(each.mean().item())
    assert module.plan(_P.clone().requires_grad_(), _OLD, _A).backend == "numba"


def test_an_advantage_of_a_whole_row_is_expanded_to_it() -> None:
    log_prob, old = torch.full((2, 3), -1.0), torch.full((2, 3), -1.05)
    advantage = torch.tensor([1.0, -1.0])
    found = ppo_clip_loss(log_prob, old, advantage[:, None].expand(2, 3))
    assert found.item() == pytest.approx(0.0, abs=1e-7)
    with pytest.raises(UsageError, match="advantage"):
        ppo_clip_loss(log_prob, old, advantage[:, None])


def test_log_probabilities_of_bfloat16_go_with_old_ones_of_float32() -> None:
    log_prob = _P.bfloat16().requires_grad_()
    loss = ppo_clip_loss(log_prob, _OLD, _A)
    loss.backward()
    assert loss.dtype is torch.float32
    assert log_prob.grad is not None and log_prob.grad.dtype is torch.bfloat16


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", math.nan)])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    log_prob = torch.full((3,), math.nan, requires_grad=True)
    masked = ppo_clip_loss(log_prob, _OLD, _A, mask=torch.zeros(3, dtype=torch.bool), empty=empty)
    assert masked.item() == pytest.approx(value, nan_ok=True)
    assert ppo_clip_loss(_P[:0], _OLD[:0], _A[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        assert not torch.autograd.grad(masked, log_prob)[0].any()


def _with_nan(tensor: Tensor) -> Tensor:
    return torch.where(torch.arange(3) == 1, math.nan, tensor)


REFUSED: dict[str, dict[str, Any]] = {
    "log_prob has shape [3], old_log_prob [1]": {"old_log_prob": _OLD[:1]},
    "log_prob has shape [3], advantage [3, 1]": {"advantage": _A[:, None]},
    "advantage is int64[3]": {"advantage": torch.ones(3, dtype=torch.int64)},
    "advantage is NaN: nan at [1]": {"advantage": _with_nan(_A)},
    "old_log_prob is NaN: nan at [1]": {"old_log_prob": _with_nan(_OLD)},
    "clip is 0": {"clip": 0},
    "clip is -0.2": {"clip": -0.2},
    "dual_clip is 1.0": {"dual_clip": 1.0},
    "mask has shape [2]": {"mask": torch.ones(2, dtype=torch.bool)},
    "reduction is 'max'": {"reduction": "max"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ppo_clip_loss(**{"log_prob": _P, "old_log_prob": _OLD, "advantage": _A, **REFUSED[message]})
    assert str(caught.value).startswith(message)
