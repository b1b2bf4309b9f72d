"""The same call, another result. A pattern over the calls is state that they share; without one it is chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from gradwright.checking.causes.base import Cause, Fit
from gradwright.checking.causes.case import Case

CALLS = 3


def fits(case: Case) -> Cause | None:
    later = [case.returned] + [case.backward(case.cotangents) for _ in range(CALLS)]
    if all(bool(((one - later[0]).abs() <= case.slack).all()) for one in later):
        return None
    return of_history(later + [case.backward(case.cotangents) for _ in range(CALLS)])


def of_history(gradients: Sequence[torch.Tensor]) -> Cause:
    """The cause, of what six or more equal calls returned one after the other: flat gradients.

    A pattern: only the first differs, they come back in turn, or they drift to one side.
    """
    if words := _pattern(gradients):
        return Cause("state kept between calls", None, {"pattern": words}, words)
    return Cause("nondeterminism", words="the same call returns another gradient each time")


def _pattern(gradients: Sequence[torch.Tensor]) -> str:
    size = max(float(gradient.abs().max()) for gradient in gradients)

    def same(one: torch.Tensor, other: torch.Tensor) -> bool:
        return float((one - other).abs().max()) <= 1e-9 * size

    distinct: list[torch.Tensor] = []
    for gradient in gradients:
        if not any(same(gradient, one) for one in distinct):
            distinct.append(gradient)
    if len(distinct) <= len(gradients) // 2:
        if all(same(gradient, gradients[1]) for gradient in gradients[1:]):
            return "the first call differs from all later ones"
        return "a few results come back in turn"
    steps = [b - a for a, b in itertools.pairwise(gradients)]
    whole = gradients[-1] - gradients[0]
    shares = [float(step @ whole) for step in steps]
    straight = all(share > 0.5 * float(step.norm() * whole.norm()) for share, step in zip(shares, steps, strict=True))
    return "it drifts from call to call" if straight else ""


FIT = Fit(4, fits)
