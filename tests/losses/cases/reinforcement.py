"""Losses of a policy's log-probabilities."""

from functools import partial

import torch
from tests.losses.case import Case, drawn, normal, uniform
from torch import Tensor

from gradwright.losses.reinforcement.ppo_clip import ppo_clip_loss
from gradwright.losses.reinforcement.reinforce import reinforce_loss

_REWARDED = drawn(normal(6, 7), normal(6, 7))
_BASED = drawn(normal(6, 7), normal(6, 7), uniform(6, 7))
_ACTED = drawn(normal(6, 7, scale=0.3), normal(6, 7, scale=0.3), normal(6, 7))


def _surrogate(log_prob: Tensor, old: Tensor, advantage: Tensor, clip: float = 0.2) -> Tensor:
    """Equation 7 of arXiv:1707.06347, without its expectation."""
    ratio = (log_prob - old).exp()
    return torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


CASES = [
    Case("reinforce", reinforce_loss, lambda p, r: -(p * r).mean(), _REWARDED),
    Case("reinforce, baseline, masked", lambda p, r, b: reinforce_loss(p, r, b, mask=r > 0),
         lambda p, r, b: -(p * (r - b))[r > 0].mean(), _BASED),
    Case("reinforce, constant baseline, sum", partial(reinforce_loss, baseline=0.5, reduction="sum"),
         lambda p, r: -(p * (r - 0.5)).sum(), _REWARDED),
    Case("ppo clip", ppo_clip_loss, lambda p, o, a: -_surrogate(p, o, a).mean(), _ACTED),
    Case("ppo clip, dual, none", partial(ppo_clip_loss, clip=0.1, dual_clip=1.3, reduction="none"),
         lambda p, o, a: -torch.where(a < 0, torch.max(_surrogate(p, o, a, 0.1), 1.3 * a), _surrogate(p, o, a, 0.1)),
         _ACTED),
]  # fmt: skip
