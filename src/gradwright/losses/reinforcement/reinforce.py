"""REINFORCE: the loss whose gradient is the policy gradient, with a baseline.

With log p the log-probability of the action that was taken, the return R and the baseline b, which must not depend on
that action,

    l = -(R - b) log p,          dl/d log p = -(R - b)

R - b, the advantage, is a constant of the gradient: sum of dl over the actions of an episode has the policy gradient as
its expectation, whatever b is; b makes its variance smaller. Williams 1992, "Simple Statistical Gradient-Following
Algorithms for Connectionist Reinforcement Learning", Machine Learning 8, definition 1, with a
reinforcement baseline. The value itself is no measure of anything: only its gradient is meant.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.kernels.calls.messages import refusal, told
from gradwright.losses.common.additive import Additive, nan_fault
from gradwright.losses.common.arguments import Empty, Reduction, options_of, require_real, require_same_shape
from gradwright.losses.common.module import Loss

_WHERE = "reinforce_loss(log_prob, reward)"
_REINFORCE = Additive("reinforce_loss", "(baseline - reward)*log_prob", (nan_fault("reward"), nan_fault("baseline")))


def reinforce_loss(
    log_prob: Tensor,
    reward: Tensor,
    baseline: Tensor | float | None = None,
    reduction: Reduction = "mean",
    *,
    mask: Tensor | None = None,
    num_items: float | Tensor | None = None,
    empty: Empty = "zero",
) -> Tensor:
    """-(reward - baseline) log_prob: of actions that were taken, and what came of them.

    Shapes: ``log_prob`` and ``reward`` (what is gained from this action on: the return) alike, [N] or [N, T]; so is
    ``baseline``, unless it is a number or has no axes. ``mask`` (bool: which steps count; episodes that are padded)
    broadcasts to them. Result: a scalar; of the shape of ``log_prob`` with ``reduction="none"``. ``num_items``: what
    the sum is divided by instead of the count (the number of episodes, where a sum over their steps is meant).
    ``empty``: a mean of nothing is 0 ("zero") or NaN ("nan").
    Gradients: of ``log_prob`` alone; reward and baseline are taken as they are. A baseline that is learnt has a loss of
    its own.
    Units: of the loss, those of the reward. Dtype: torch's promotion; computed in float32 at least. ``reward`` may be
    of integers.
    Coupling: additive. Cost: one pass: all read, the gradient written: 16 bytes an element in float32, 12 without a
    tensor as baseline.
    Raises: UsageError for shapes that differ, a NaN reward or baseline, and options that can't be right.

    >>> import torch
    >>> log_prob = torch.tensor([-1.0, -2.0], requires_grad=True)
    >>> loss = reinforce_loss(log_prob, torch.tensor([3.0, 1.0]), baseline=2.0, reduction="sum")
    >>> loss.backward()
    >>> loss.item(), log_prob.grad.tolist()
    (-1.0, [-1.0, 1.0])
    """
    options = options_of(_WHERE, reduction, mask, num_items, empty)
    require_real(_WHERE, log_prob=log_prob)
    _require_numbers("reward", reward)
    require_same_shape(_WHERE, log_prob=log_prob, reward=reward)
    tensors = {"log_prob": log_prob, "reward": reward.detach()}
    if not isinstance(baseline, Tensor):
        return _REINFORCE(_WHERE, tensors, {"baseline": 0.0 if baseline is None else float(baseline)}, options)
    _require_numbers("baseline", baseline)
    if baseline.ndim:
        require_same_shape(_WHERE, log_prob=log_prob, baseline=baseline)
    return _REINFORCE(_WHERE, {**tensors, "baseline": baseline.detach()}, {}, options)


def _require_numbers(name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor) or tensor.is_complex():
        raise refusal(
            f"{name} is {told(tensor)}",
            where=_WHERE,
            why="one number is needed for each action",
            do=f"hand over a tensor of numbers: torch.as_tensor({name})",
        )


def reference(log_prob: Tensor, reward: Tensor, baseline: Tensor | float | None = None) -> Tensor:
    """The unreduced loss, unfused."""
    advantage = reward if baseline is None else reward - torch.as_tensor(baseline)
    return -advantage.detach() * log_prob


class REINFORCELoss(Loss):
    """``reinforce_loss`` as a module.

    >>> import torch
    >>> loss = REINFORCELoss()
    >>> loss(torch.tensor([-1.0]), torch.tensor([3.0]), baseline=2.0).item(), loss.coupling
    (1.0, 'additive')
    """

    coupling = "additive"

    def __init__(self, reduction: Reduction = "mean", *, empty: Empty = "zero") -> None:
        super().__init__()
        options_of(_WHERE, reduction, None, None, empty)
        self.reduction: Reduction = reduction
        self.empty: Empty = empty

    def forward(
        self,
        log_prob: Tensor,
        reward: Tensor,
        baseline: Tensor | float | None = None,
        *,
        mask: Tensor | None = None,
        num_items: float | Tensor | None = None,
    ) -> Tensor:
        return reinforce_loss(
            log_prob, reward, baseline, self.reduction, mask=mask, num_items=num_items, empty=self.empty
        )
