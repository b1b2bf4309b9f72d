"""Is there a derivative at this very point, and what is it? Stricter than ``differences``, for points on a boundary.

Notation: φᵢ(t) = ȳᵢ fᵢ(x + t u). With the one-sided quotients R(h), L(h) of each output entry, D(h) = Σ (R + L) / 2 and
the bend B(h) = Σ |R - L|. Where f is smooth B falls in proportion to h; at a kink it stays; at an infinite slope
(sqrt |x| at 0, where D is 0 for every h by symmetry) or a jump it grows. So a derivative along u is believed only if
D has settled and B falls, or is rounding. That there is one along every line is not enough (the median of equal
numbers): the derivative must be linear, D(u + v) = D(u) + D(v).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from gradwright.checking.chance import signed
from gradwright.checking.precision import DOUBLE
from gradwright.checking.trial import TimeUp, Trial
from gradwright.checking.vectors import flat

# How well D(u + v) and D(u) + D(v) must agree, relative to the larger of their terms.
LINEAR = 1e-3


@dataclass(frozen=True, slots=True)
class Along:
    """The derivative along one direction: ``value`` give or take ``error``, if ``smooth``.

    ``kinked``: the one-sided derivatives differ, and their sums over the outputs lie between ``low`` and ``high``.
    """

    value: float
    error: float
    smooth: bool
    kinked: bool
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Quotients:
    step: float
    central: float
    bend: float
    moved: float
    low: float
    high: float


def along(trial: Trial, index: int, direction: torch.Tensor) -> Along | None:
    """The derivative of <ȳ, f> as input ``index`` moves along ``direction`` (flat); ``None`` where f is not finite.

    Cost: 6 calls. Raises: TimeUp.
    """
    steps = (1e-3, 1e-4, 1e-5) if trial.precision is DOUBLE else (1e-1, 3e-2, 1e-2)
    weights = [flat(cotangent) for cotangent in trial.cotangents]
    found: list[_Quotients] = []
    for step in steps:
        quotients = _at(trial, index, direction, step, weights)
        if quotients is None:
            return None
        found.append(quotients)
    size = sum(float((weight * value).abs().sum()) for weight, value in zip(weights, trial.values, strict=True))
    best: Along | None = None
    for wide, narrow in itertools.pairwise(found):
        noise = 16 * trial.precision.eps * size / narrow.step
        ratio = wide.step / narrow.step
        apart = abs(wide.central - narrow.central)
        typical = max(abs(narrow.central), found[0].moved)
        settled = apart <= 1e-2 * typical + noise
        falls = narrow.bend <= wide.bend * ratio**-0.7 + noise
        stays = wide.bend * ratio**-0.3 < narrow.bend < wide.bend * ratio**0.3 and narrow.bend > 10 * noise
        candidate = Along(
            (ratio**2 * narrow.central - wide.central) / (ratio**2 - 1),
            apart / (ratio**2 - 1) + noise,
            settled and falls,
            stays and not falls,
            narrow.low - noise,
            narrow.high + noise,
        )
        if best is None or (not candidate.smooth, candidate.error) < (not best.smooth, best.error):
            best = candidate
    return best


def evaluated(trial: Trial, index: int, shift: torch.Tensor) -> list[torch.Tensor] | None:
    """The outputs with ``shift`` added to input ``index``; ``None`` where the forward refuses that or changes shape."""
    try:
        outputs = trial.evaluate(index, shift)
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, at a point that it was never meant for
        return None
    same = len(outputs) == len(trial.values)
    return outputs if same and all(o.shape == v.shape for o, v in zip(outputs, trial.values, strict=True)) else None


def _at(
    trial: Trial, index: int, direction: torch.Tensor, step: float, weights: list[torch.Tensor]
) -> _Quotients | None:
    after, before = evaluated(trial, index, step * direction), evaluated(trial, index, -step * direction)
    if after is None or before is None:
        return None
    central = bend = moved = low = high = 0.0
    for weight, up, here, down in zip(weights, after, trial.values, before, strict=True):
        right, left = weight * (up - here) / step, weight * (here - down) / step
        if not bool(torch.isfinite(right).all() and torch.isfinite(left).all()):
            return None
        central += float((right + left).sum()) / 2
        bend += float((right - left).abs().sum())
        moved += float(torch.maximum(right.abs(), left.abs()).sum())
        low += float(torch.minimum(left, right).sum())
        high += float(torch.maximum(left, right).sum())
    return _Quotients(step, central, bend, moved, low, high)


@dataclass(frozen=True, slots=True)
class Plane:
    """Derivatives along directions between which f is linear: there is a gradient here, to be compared with."""

    directions: tuple[torch.Tensor, ...]
    slopes: tuple[Along, ...]


def plane(trial: Trial, index: int, entries: torch.Tensor, generator: torch.Generator) -> Plane | Along | None:
    """Directions among ``entries`` (flat indices) and f's derivatives along them, if those are linear.

    Three directions, two of them random and one the first with its entries rolled on: the median of equal numbers is
    linear between directions that order their entries alike. Otherwise what was found along the first direction that
    has no derivative, or ``None``. Cost: 6 to 30 calls.
    """
    scale = trial.entry_scale(index)
    drawn = [signed(entries.shape, generator) / 4 for _ in range(2)]
    shares = [*drawn, drawn[0].roll(1) * 0.7] if entries.numel() > 1 else drawn
    directions, slopes = [], []
    for share in shares:
        direction = torch.zeros_like(scale)
        direction[entries] = scale[entries] * share
        slope = along(trial, index, direction)
        if slope is None or not slope.smooth:
            return slope
        directions.append(direction)
        slopes.append(slope)
    for direction, slope in zip(directions[1:], slopes[1:], strict=True) if entries.numel() > 1 else ():
        both = along(trial, index, directions[0] + direction)
        if both is None or not both.smooth:
            return both
        apart = abs(both.value - slopes[0].value - slope.value)
        typical = max(abs(both.value), abs(slopes[0].value), abs(slope.value))
        if apart > LINEAR * typical + both.error + slopes[0].error + slope.error:
            return None
    return Plane(tuple(directions), tuple(slopes))


def slope_of_entry(trial: Trial, index: int, entry: int) -> float | None:
    """The derivative by one entry (flat) of an input, ``None`` where there is none. Cost: 6 calls."""
    scale = float(trial.entry_scale(index)[entry])
    direction = torch.zeros_like(trial.inputs[index])
    direction[entry] = scale
    slope = along(trial, index, direction)
    return slope.value / scale if slope is not None and slope.smooth else None


def agrees_roughly(
    trial: Trial,
    index: int,
    returned: torch.Tensor,
    entries: torch.Tensor,
    tolerance: float,
    generator: torch.Generator,
) -> bool:
    """One central difference, to see whether there is anything to look into. Cost: 2 calls."""
    direction = torch.zeros_like(returned)
    tilt = torch.rand(entries.shape, generator=generator, dtype=torch.float64, device="cpu") + 0.5
    alternating = 1 - 2 * (torch.arange(entries.numel(), device="cpu") % 2)
    direction[entries] = trial.entry_scale(index)[entries] * tilt * alternating
    step = trial.precision.steps[0][1] * 3
    after, before = evaluated(trial, index, step * direction), evaluated(trial, index, -step * direction)
    if after is None or before is None:
        return True
    slope = noise = 0.0
    for cotangent, up, down in zip(trial.cotangents, after, before, strict=True):
        weight = flat(cotangent)
        slope += float(weight @ (up - down)) / (2 * step)
        noise += 16 * trial.precision.eps * float((weight * up).abs().sum()) / step
    allowed = tolerance * float((returned * direction).abs().max()) + noise
    return abs(slope - float(returned @ direction)) <= allowed  # not so where it is NaN


def is_steady(trial: Trial, index: int, returned: torch.Tensor, tolerance: float, generator: torch.Generator) -> bool:
    """Does the gradient stay what it is when the input moves by what rounding could move it? Else it is noise."""
    kicked = trial.inputs[index] * (1 + 16 * trial.precision.eps * signed(returned.shape, generator))
    args = list(trial.original)
    given = args[index]
    reals = kicked.reshape(*given.shape, 2) if given.is_complex() else kicked.reshape(given.shape)
    args[index] = (torch.view_as_complex(reals) if given.is_complex() else reals).to(given)
    try:
        beside = trial.at(args).gradient(trial.cotangents)[index]
    except TimeUp:
        raise
    except Exception:  # the subject is someone else's code, at a point that it was never meant for
        return False
    return float((beside - returned).abs().max()) <= tolerance * float(returned.abs().max())
