"""Finite differences along a direction: exact to a known error, or honestly unstable.

Notation: φ(t) = <ȳ, f(x + t u)>. Central differences D(h) = (φ(h) - φ(-h)) / 2h = φ'(0) + O(h²); two of them at
h₁ > h₂, with r = h₁/h₂, give Richardson's (r² D(h₂) - D(h₁)) / (r² - 1). How far the two are apart bounds the error.

At a kink D(h) is stable and means nothing (relu at 0 has D = 1/2). What tells is the bend, |ȳ| · |f(h) - 2 f(0) +
f(-h)| / h: as h falls it falls where f is smooth, stays where f is kinked, and grows where it is rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradwright.check.trial import Trial, flat


@dataclass(frozen=True, slots=True)
class Slope:
    """φ'(0) is ``value``, give or take ``error``. ``kinked``: left and right differ, between ``low`` and ``high``.

    ``still``: no output moved at all, at any step tried.
    """

    value: float
    error: float
    kinked: bool
    low: float
    high: float
    still: bool


@dataclass(frozen=True, slots=True)
class _Step:
    central: float
    bend: float
    low: float
    high: float
    still: bool
    finite: bool


def slope(trial: Trial, index: int, direction: torch.Tensor, goal: float) -> Slope:
    """The derivative of <ȳ, f> as input ``index`` moves along ``direction`` (flat, scaled to the input's entries).

    Tries pairs of steps until two agree within ``goal``. Cost: 4 calls where the first pair agrees.
    """
    weights = [flat(cotangent) for cotangent in trial.cotangents]
    size = trial.output_size()
    steps: dict[float, _Step] = {}
    best: Slope | None = None
    for wide, narrow in trial.precision.steps:
        for step in (wide, narrow):
            if step not in steps:
                steps[step] = _at(trial, index, direction, step, weights)
        one, two, ratio = steps[wide], steps[narrow], wide / narrow
        noise = 4 * trial.precision.eps * size / narrow
        if not (one.finite and two.finite):
            found = Slope(float("nan"), float("inf"), False, float("-inf"), float("inf"), False)
        else:
            found = Slope(
                (ratio**2 * two.central - one.central) / (ratio**2 - 1),
                abs(one.central - two.central) + noise,
                one.bend / ratio**0.5 < two.bend < one.bend * ratio**0.5 and two.bend > goal + 10 * noise,
                two.low - noise,
                two.high + noise,
                one.still and two.still,
            )
        if best is None or (found.kinked, found.error) < (best.kinked, best.error):
            best = found
        if found.error <= goal and not found.kinked:
            break
    assert best is not None
    return best


def _at(trial: Trial, index: int, direction: torch.Tensor, step: float, weights: list[torch.Tensor]) -> _Step:
    after = trial.evaluate(index, step * direction)
    before = trial.evaluate(index, -step * direction)
    if any(a.shape != v.shape or b.shape != v.shape for a, b, v in zip(after, before, trial.values, strict=True)):
        return _Step(0.0, 0.0, 0.0, 0.0, False, False)
    central = bend = low = high = 0.0
    still, finite = True, True
    for weight, up, here, down in zip(weights, after, trial.values, before, strict=True):
        central += float(weight @ (up - down)) / (2 * step)
        right, left = weight * (up - here) / step, weight * (here - down) / step
        bend += float((right - left).abs().sum())
        low += float(torch.minimum(left, right).sum())
        high += float(torch.maximum(left, right).sum())
        still = still and torch.equal(up, down) and torch.equal(up, here)
        finite = finite and bool(torch.isfinite(up).all()) and bool(torch.isfinite(down).all())
    return _Step(central, bend, low, high, still, finite)


def moved_share(trial: Trial, index: int, direction: torch.Tensor, step: float) -> float:
    """The share of output entries that change at all when the input moves by ``step`` along ``direction``."""
    after = trial.evaluate(index, step * direction)
    before = trial.evaluate(index, -step * direction)
    moved = total = 0
    for up, here, down in zip(after, trial.values, before, strict=True):
        if up.shape != here.shape or down.shape != here.shape:
            return 1.0
        moved += int(((up != here) | (down != here)).sum())
        total += here.numel()
    return moved / total if total else 0.0
