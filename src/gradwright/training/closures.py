"""Optimizers that evaluate the loss several times for a step (LBFGS): all of it is made, or nothing of it.

Parameters move between the evaluations, so a gradient with NaN in the third of them has two moves behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gradwright.training.running import Running
from gradwright.training.update import Stepping, Update

Evaluated = tuple[Running, Update]


class _LeftOutError(Exception):
    """Out of the middle of the optimizer: no step can be made by this gradient."""


def step(stepping: Stepping, parameters: Sequence[Tensor], evaluate: Callable[[], Evaluated]) -> Evaluated:
    """A step by as many evaluations of the window as the optimizer asks for; told is the first of them.

    Where one can't be used, parameters are as they were before the step, and the optimizer begins anew (what it knew of
    earlier steps is cleared: it is not known how much of it the evaluations changed).
    Memory: a copy of the parameters. Raises: what an evaluation raises.
    """
    found: list[Evaluated] = []
    before = [parameter.detach().clone() for parameter in parameters]

    def closure() -> float:
        found.append(evaluate())
        if not found[-1][1].stepped:
            raise _LeftOutError
        return found[-1][1].loss

    try:
        why_not = stepping.step(closure)
    except Exception as error:
        if any(update.stepped for _, update in found):  # it has moved
            _put_back(parameters, before)
            stepping.optimizer.state.clear()
        if isinstance(error, _LeftOutError):
            return found[-1]
        raise
    running, update = found[0]
    return running, replace(update, why_not=why_not)


@torch.no_grad()
def _put_back(parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
    for parameter, old in zip(parameters, before, strict=True):
        parameter.copy_(old)
