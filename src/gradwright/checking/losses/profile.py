"""A loss along one ray: its values and slopes, where it jumps, where it falls, where its slope breaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch

from gradwright.checking.losses.loss import Loss
from gradwright.checking.losses.rays import Ray
from gradwright.checking.trial import NotJudgeable, TimeUp

Point = tuple[float, float, float]  # of a ray: s, value, slope
_NODES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)  # of Gauss: exact for cubic values between two points
_EVERYWHERE = 5  # so many halvings in which both halves have as much as this share of the other's: no single break
_SHARE = 0.2


@dataclass(frozen=True)
class Break:
    """At ``at`` (on the ray) the value, or the slope, is ``before`` on one side and ``after`` on the other."""

    at: float
    before: float
    after: float


@dataclass(frozen=True)
class Fall:
    """From ``start`` to ``end`` the loss falls from ``high`` to ``low``."""

    start: float
    end: float
    high: float
    low: float


class Profile:
    """``loss`` along ``ray``. Points at which the loss raises or is not finite are left out.

    ``ordinary``: the size of an ordinary value; what is a millionth of a millionth of it is nothing.
    Cost: a gradient per point of the ray's grid, two more beside it where the slopes turn sharply; some forty per jump
    or kink.
    """

    def __init__(self, loss: Loss, ray: Ray, *, ordinary: float = 0.0) -> None:
        self.loss, self.ray, self.ordinary = loss, ray, ordinary
        self.double = loss.fine
        self.points: list[Point] = []
        self.smooth = True  # whether slopes are to be had
        for s in ray.grid:
            value, slope = self.look(s)
            if math.isfinite(value):
                self.points.append((s, value, slope))

    @property
    def values(self) -> list[float]:
        return [value for _, value, _ in self.points]

    def look(self, s: float) -> tuple[float, float]:
        """Value, and slope by autograd along the ray (NaN where there is none)."""
        sample = self.ray.at(s)
        if self.smooth:
            try:
                value, gradient = self.loss.slope(sample)
            except TimeUp:
                raise
            except NotJudgeable:
                self.smooth = False
            except Exception:  # the loss is someone else's code: it may raise here, and not beside
                return self.loss.attempt(sample), float("nan")
            else:
                return value, float(torch.dot(gradient.reshape(-1), self.direction(s)))
        return self.loss.attempt(sample), float("nan")

    def direction(self, s: float) -> torch.Tensor:
        """How the prediction moves with ``s``, flat."""
        if self.ray.straight:
            return self._direction
        h = 1e-6 * (1 + abs(s))
        ahead, behind = (self.ray.at(s + sign * h).prediction.to(torch.float64) for sign in (1, -1))
        return (ahead - behind).reshape(-1) / (2 * h)

    @cached_property
    def _direction(self) -> torch.Tensor:
        """That of a straight ray, which is the same everywhere."""
        one, other = (self.ray.at(s).prediction.to(torch.float64).reshape(-1) for s in (0.25, 0.75))
        return (other - one) / 0.5

    def slack(self, *values: float) -> float:
        """How much of a difference between such values is rounding."""
        return (1e-9 if self.double else 1e-4) * max(*map(abs, values), 1e-3 * self.ordinary, 1e-300)

    # --- where it is not smooth --------------------------------------------------------------------------------------

    @cached_property
    def _broken(self) -> tuple[list[Break], list[Break]]:
        """Jumps of the value and of the slope: where the integral of the slope is not the difference of the values."""
        jumps, kinks = [], []
        if not self.smooth or not self.points:
            return [], []
        middle = sorted(map(abs, self.values))[len(self.points) // 2]
        seen = 1e-4 * max(middle, self.ordinary)  # what lies below is not worth a search
        for number, (one, other) in enumerate(pairwise(self.points)):
            nodes = [one[0] + node * (other[0] - one[0]) for node in _NODES]
            between = self.points[max(0, min(number - 1, len(self.points) - 4)) :][:4]
            if self._agree(one, other, [_interpolated(between, s) for s in nodes], seen):
                continue  # else by slopes that are looked at: that of a neighbour may be infinite
            if self._agree(one, other, [self.look(s)[1] for s in nodes], seen) is not False:
                continue
            narrowed = self._narrowed(one, other)
            if narrowed is None:
                continue
            before, after = narrowed
            step = abs(after[1] - before[1])
            if step > 1e-3 * max(abs(other[1] - one[1]), 1e-300) and step > 100 * self._rounding(before[1], after):
                jumps.append(Break(round(after[0], 9), before[1], after[1]))
            elif abs(after[2] - before[2]) > 1e-3 * max(abs(after[2]), abs(before[2]), 1e-3 * self.ordinary):
                kinks.append(Break(round(after[0], 6), before[2], after[2]))
        return jumps, kinks

    def _agree(self, one: Point, other: Point, inside: list[float], seen: float) -> bool | None:
        """Is the integral of the slope, which is ``inside`` at the nodes, the difference of the values?

        None where a slope is not finite.
        """
        (a, fa, ga), (b, fb, gb) = one, other
        if not all(map(math.isfinite, (ga, gb, *inside))):
            return None
        left = abs(fb - fa - (b - a) * sum(inside) / 2)
        size = max(seen, abs(fa), abs(fb), (b - a) * max(abs(ga), abs(gb), *map(abs, inside)))
        return left <= (1e-6 if self.double else 1e-3) * size

    def _narrowed(self, one: Point, other: Point) -> tuple[Point, Point] | None:
        """Two points next to each other between which the value jumps or the slope breaks.

        None where each part has its share of the difference: the slopes there are not those of the values.
        """
        least = 1e-13 if self.double else 1e-5
        halvings = alike = 0
        while other[0] - one[0] > least * (1 + abs(one[0])):
            middle = (one[0] + other[0]) / 2
            value, slope = self.look(middle)
            if not math.isfinite(value) or not math.isfinite(slope):
                break
            between = (middle, value, slope)
            first, second = _remainder(one, between), _remainder(between, other)
            halvings, alike = halvings + 1, alike + (min(first, second) > _SHARE * max(first, second))
            if alike == halvings == _EVERYWHERE:
                return None
            if first >= second:
                other = between
            else:
                one = between
        return one, other

    def _rounding(self, value: float, point: Point) -> float:
        """The slack between two values next to each other. Terms that cancel leave the rounding of terms, not of
        their sum: as large as what each element adds to the slope would make them."""
        s, other, _ = point
        gradient = self.loss.slope(self.ray.at(s))[1].reshape(-1)
        terms = abs(s) * float((gradient * self.direction(s)).abs().sum())
        return self.slack(value, other, 1e-6 * terms)

    @property
    def jumps(self) -> list[Break]:
        return self._broken[0]

    @property
    def kinks(self) -> list[Break]:
        return self._broken[1]

    # --- where it falls ----------------------------------------------------------------------------------------------

    @cached_property
    def falls(self) -> list[Fall]:
        """The stretches, from where the prediction is wrong on, along which the value falls without a jump."""
        found: list[Fall] = []
        for (a, fa, _), (b, fb, _) in pairwise(self.points):
            if a < self.ray.wrong_from or fb >= fa - self.slack(fa, fb):
                continue
            if any(a <= jump.at <= b for jump in self.jumps):
                continue
            if found and found[-1].end == a:
                found[-1] = Fall(found[-1].start, b, found[-1].high, fb)
            else:
                found.append(Fall(a, b, fa, fb))
        return found

    @cached_property
    def only_falls(self) -> bool:
        """Does it fall from right to wrong, and nowhere rise?"""
        values = [value for s, value, _ in self.points if s >= self.ray.wrong_from]
        pairs = list(pairwise(values))
        return bool(self.falls) and all(after <= before + self.slack(before, after) for before, after in pairs)

    @cached_property
    def period(self) -> float | None:
        """How far on the values come again, as those of an angle do; ``None`` if they don't."""
        values = self.values
        if not self.points or not self.falls:
            return None
        for number in range(2, len(values) - 1):
            if values[number] <= min(values[number - 1], values[number + 1]):
                period = self._least(self.points[number - 1][0], self.points[number + 1][0])
                if all(self._same(s, s + period) for s in (0.0, 0.3, 1.1, 2.3)):
                    return period
        return None

    def _same(self, one: float, other: float) -> bool:
        values = [self.loss.attempt(self.ray.at(s)) for s in (one, other)]
        return abs(values[0] - values[1]) <= 1e-4 * max(max(self.values[:60]) - min(self.values[:60]), 1e-300)

    def _least(self, a: float, b: float) -> float:
        for _ in range(60):
            one, other = a + (b - a) / 3, b - (b - a) / 3
            if self.loss.attempt(self.ray.at(one)) < self.loss.attempt(self.ray.at(other)):
                b = other
            else:
                a = one
        return (a + b) / 2


def _interpolated(points: Sequence[Point], s: float) -> float:
    """The slope at ``s`` by the polynomial through those of ``points``."""
    total = 0.0
    for at, _, slope in points:
        for other, _, _ in points:
            if other != at:
                slope *= (s - other) / (at - other)
        total += slope
    return total


def _remainder(one: Point, other: Point) -> float:
    """What the trapezoid of the slopes leaves of the difference of the values."""
    (a, fa, ga), (b, fb, gb) = one, other
    return abs(fb - fa - (b - a) * (ga + gb) / 2)
