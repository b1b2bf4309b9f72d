"""Random signs for Hutchinson's estimators, and the options of such an estimate."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.errors import UsageError


def random_signs(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """+1 and -1, each with probability 1/2 (Rademacher), in the shape, dtype and device of ``like``.

    Without ``generator`` they come from torch's own random numbers, as dropout's do, so that ``torch.manual_seed``
    makes a run repeatable.
    """
    device = like.device if generator is None else generator.device
    drawn = torch.randint(0, 2, like.shape, generator=generator, device=device)
    return (2 * drawn - 1).to(like)


def read_estimator(estimator: str, samples: int) -> bool:
    """Whether it is Hutchinson's.  Raises: UsageError."""
    if estimator not in ("exact", "hutchinson"):
        raise UsageError(f'estimator={estimator!r}: choose "exact" or "hutchinson"')
    if samples < 1:
        raise UsageError(f"samples={samples}: it counts the random vectors that are averaged over, so 1 at least")
    return estimator == "hutchinson"
