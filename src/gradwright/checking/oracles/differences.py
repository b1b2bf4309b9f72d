"""Finite differences along a direction: exact to a known error, or honestly unstable.

Notation: φ(t) = <ȳ, f(x + t u)>. Central differences D(h) = (φ(h) - φ(-h)) / 2h = φ'(0) + O(h²); two of them at
h₁ > h₂, with r = h₁/h₂, give Richardson's (r² D(h₂) - D(h₁)) / (r² - 1). How far the two are apart bounds the error.

At a kink D(h) is stable and means nothing (relu at 0 has D = 1/2). What tells is the bend, |ȳ| · |f(h) - 2 f(0) +
f(-h)| / h: as h falls it falls where f is smooth, stays where f is kinked, and grows where it is rounding.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from gradwright.checking.trial import Trial


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


_HAIR = 1e-8


def slope(trial: Trial, index: int, direction: torch.Tensor, goal: float) -> Slope:
    """The derivative of <ȳ, f> as input ``index`` moves along ``direction`` (flat, scaled to the input's entries).

    Tries pairs of steps until two agree within ``goal``. Cost: 4 calls where the first pair agrees.
    """
    weights = trial.weights()
    size = trial.output_size()
    steps: dict[float, _Step] = {}
    best: Slope | None = None
    noisiest = 0.0
    for wide, narrow in trial.precision.steps:
        for step in (wide, narrow):
            if step not in steps:
                steps[step] = _at(trial, index, direction, step, weights)
        one, two, ratio = steps[wide], steps[narrow], wide / narrow
        noise = trial.precision.value_noise * trial.precision.eps * size / narrow
        if not (one.finite and two.finite):
            found = Slope(float("nan"), float("inf"), False, float("-inf"), float("inf"), False)
        else:
            # two noisy values may be close by chance: rounding that one pair showed is, step for step, in the next
            apart = max(abs(one.central - two.central), noisiest / narrow)
            noisiest = max(noisiest, apart * narrow if two.bend >= one.bend else 0.0)
            found = Slope(
                (ratio**2 * two.central - one.central) / (ratio**2 - 1),
                apart + noise,
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


def moves_faster(trial: Trial, index: int, direction: torch.Tensor, slope: float, gap: float) -> bool:
    """Does the subject swing faster than the steps that found ``slope``, which contradicts a gradient by ``gap``?

    The sine of something large goes round many times within a step, and adds nothing to a difference but a little
    noise, however steep it is. A hair's breadth shows it. Where rounding covers that, nothing is said. Cost: 2 calls.
    """
    if trial.precision.eps > 1e-12:
        return False
    near = _at(trial, index, direction, _HAIR, trial.weights())
    noise = trial.precision.value_noise * trial.precision.eps * trial.output_size() / _HAIR
    return near.finite and noise <= 0.2 * gap and abs(near.central - slope) > 0.3 * gap + noise


def sharp_slope(trial: Trial, index: int, direction: torch.Tensor) -> tuple[float, float]:
    """The same derivative as closely as differences can tell it, and how far it may be off (``inf`` if at all).

    Romberg: from D(h), D(h/2), ... each column of the table removes the next even power of h. Two rows of steps, the
    second for functions with a kink nearby; the better one counts. Cost: 20 calls.
    """
    weights = trial.weights()
    noise = trial.precision.value_noise * trial.precision.eps * trial.output_size()
    best = (float("nan"), float("inf"))
    for widest in (1.6e-2, 3.2e-4):
        steps = [widest / 2**k for k in range(5)]
        found = [_at(trial, index, direction, step, weights) for step in steps]
        if not all(one.finite for one in found):
            continue
        table = [one.central for one in found]
        last = table
        for power in range(1, len(table)):
            last = table
            table = [(4**power * b - a) / (4**power - 1) for a, b in itertools.pairwise(table)]
        error = 2 * max(abs(table[0] - one) for one in last) + noise / steps[-1]
        if error < best[1]:
            best = (table[0], error)
    return best


def _at(trial: Trial, index: int, direction: torch.Tensor, step: float, weights: list[torch.Tensor]) -> _Step:
    """One step size. As right + left = 2 · central, the one-sided slopes summed are central ± bend / 2."""
    after = trial.evaluate(index, direction, step)
    before = trial.evaluate(index, direction, -step)
    if any(a.shape != v.shape or b.shape != v.shape for a, b, v in zip(after, before, trial.values, strict=True)):
        return _Step(0.0, 0.0, 0.0, 0.0, False, False)
    central = bend = 0.0
    still = True
    for weight, up, here, down in zip(weights, after, trial.values, before, strict=True):
        if not here.numel():
            continue
        apart = torch.sub(up, down)
        central += float(weight @ apart) / (2 * step)
        bent = torch.add(up, down, out=apart).sub_(here, alpha=2).mul_(weight)
        bent_here = float(bent.abs_().sum()) / step
        bend += bent_here
        still = still and bent_here == 0 and torch.equal(up, down) and torch.equal(up, here)
    # no weight is zero, so what is infinite or NaN anywhere shows in the bend
    return _Step(central, bend, central - bend / 2, central + bend / 2, still, math.isfinite(bend))


def moved_share(trial: Trial, index: int, direction: torch.Tensor, step: float) -> float:
    """The share of output entries that change at all when the input moves by ``step`` along ``direction``."""
    after = trial.evaluate(index, direction, step)
    before = trial.evaluate(index, direction, -step)
    moved = total = 0
    for up, here, down in zip(after, trial.values, before, strict=True):
        if up.shape != here.shape or down.shape != here.shape:
            return 1.0
        moved += int(((up != here) | (down != here)).sum())
        total += here.numel()
    return moved / total if total else 0.0
