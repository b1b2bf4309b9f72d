"""PPO's clipped surrogate, as a loss to be made small.

With the ratio r = exp(log p - log p_old) of the probabilities of the action that was taken, under the policy that
learns and the one that acted, the advantage A and the bound c (``clip``),

    l = -min(r A, clamp(r, 1 - c, 1 + c) A)
      = -A min(r, 1 + c)   for A > 0,      dl/d log p = -A r   for r <= 1 + c,  else 0
        -A max(r, 1 - c)   for A < 0,      dl/d log p = -A r   for r >= 1 - c,  else 0

and 0 for A = 0. Schulman, Wolski, Dhariwal, Radford & Klimov 2017, "Proximal Policy Optimization Algorithms",
arXiv:1707.06347, equation 7.

For A < 0 nothing bounds r from above: the loss grows as r does, and is inf where exp overflows (log p - log p_old above
88 in float32). ``dual_clip`` d bounds it: -A min(max(r, 1 - c), d), with gradient 0 where r > d. Ye et al. 2020,
"Mastering Complex Control in MOBA Games with Deep Reinforcement Learning", arXiv:1912.09729 (d = 3 there).

Written in two cases, and not as the minimum of two products: these are inf 0 = NaN for A = 0 where r overflows, and
where they are equal (r within the bounds: nearly everywhere) the slope of a minimum is that of both, halved.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal
from gradwright.losses.common.additive import Additive, nan_fault
from gradwright.losses.common.arguments import (
    Empty,
    Reduction,
    options_of,
    require_positive,
    require_real,
    require_same_shape,
)
from gradwright.losses.common.module import Loss

_WHERE = "ppo_clip_loss(log_prob, old_log_prob, advantage)"
_R = "exp(log_prob - old_log_prob)"
_PPO = Additive(
    "ppo_clip_loss",
    f"where(advantage > 0, -advantage*where({_R} > above, above, {_R}), "
    f"where(advantage < 0, -advantage*where({_R} < below, below, where({_R} > most, most, {_R})), 0))",
    (nan_fault("advantage"), nan_fault("old_log_prob")),
)


def ppo_clip_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    clip: float = 0.2,
    reduction: Reduction = "mean",
    *,
    dual_clip: float | None = None,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """-min(r A, clamp(r, 1 - clip, 1 + clip) A) for the ratio r = exp(log_prob - old_log_prob), A the advantage.

    Shapes: all three alike, [N] or [N, T]; an advantage of a whole row is to be expanded to it. ``mask`` (bool: which
    actions count) broadcasts to them. ``dual_clip``: above 1; what the ratio counts as at most where the advantage is
    negative; without it the loss is inf there, where the ratio overflows. Result: a scalar; of the shape of
    ``log_prob`` with ``reduction="none"``. ``num_items``: what the sum is divided by instead of the count. ``empty``: a
    mean of nothing is 0 ("zero") or NaN ("nan").
    Gradients: of ``log_prob`` alone, 0 where the ratio is clipped; the other two are taken as they are.
    Units: of the loss, those of the advantage. Dtype: torch's promotion; computed in float32 at least.
    Coupling: additive. Cost: one pass: all three read, the gradient written: 16 bytes an element in float32.
    Raises: UsageError for shapes that differ, a NaN advantage or old log-probability, and options that can't be right.

    >>> import torch
    >>> ratio = torch.tensor([1.5, 1.5, 0.5, 0.5])
    >>> log_prob = ratio.log().requires_grad_()
    >>> loss = ppo_clip_loss(log_prob, torch.zeros(4), torch.tensor([1.0, -1.0, 1.0, -1.0]), reduction="none")
    >>> loss.sum().backward()
    >>> [round(each, 6) for each in loss.tolist()], [round(each, 6) for each in log_prob.grad.tolist()]
    ([-1.2, 1.5, -0.5, 0.8], [0.0, 1.5, -0.5, 0.0])
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    require_same_shape(_WHERE, log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    _require_bounds(clip, dual_clip)
    tensors = {"log_prob": log_prob, "old_log_prob": old_log_prob.detach(), "advantage": advantage.detach()}
    most = math.inf if dual_clip is None else float(dual_clip)
    return _PPO(_WHERE, tensors, {"below": 1.0 - clip, "above": 1.0 + clip, "most": most}, options)


def _require_bounds(clip: float, dual_clip: float | None) -> None:
    require_positive(_WHERE, clip=clip)
    if dual_clip is not None and not dual_clip > 1:
        raise refusal(
            f"dual_clip is {dual_clip}",
            where=_WHERE,
            why="a ratio of 1 is that of the policy that acted",
            do="hand over a number above 1, such as 3",
        )


def reference(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    clip: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:
    """The unreduced loss, unfused."""
    old_log_prob, advantage = old_log_prob.detach(), advantage.detach()
    ratio = torch.exp(log_prob - old_log_prob)
    # No clamp, whose slope on a bound is not the same in every torch: here the ratio counts there.
    clipped = torch.where(ratio > 1 + clip, 1 + clip, torch.where(ratio < 1 - clip, 1 - clip, ratio))
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    if dual_clip is not None:
        surrogate = torch.where(advantage < 0, torch.maximum(surrogate, dual_clip * advantage), surrogate)
    return -surrogate


class PPOClipLoss(Loss):
    """``ppo_clip_loss`` as a module.

    >>> import torch
    >>> loss = PPOClipLoss(clip=0.5)
    >>> loss(torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([2.0])).item(), loss.coupling
    (-3.0, 'additive')
    """

    coupling = "additive"

    def __init__(
        self,
        clip: float = 0.2,
        reduction: Reduction = "mean",
        *,
        dual_clip: float | None = None,
        empty: Empty = "zero",
    ) -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        _require_bounds(clip, dual_clip)
        self.clip = clip
        self.reduction: Reduction = reduction
        self.dual_clip = dual_clip
        self.empty: Empty = empty

    def forward(
        self,
        log_prob: Tensor,
        old_log_prob: Tensor,
        advantage: Tensor,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return ppo_clip_loss(
            log_prob,
            old_log_prob,
            advantage,
            self.clip,
            self.reduction,
            dual_clip=self.dual_clip,
            mask=mask,
            num_items=num_items,
            empty=self.empty,
        )
