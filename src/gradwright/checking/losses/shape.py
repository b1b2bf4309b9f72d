"""What several properties ask of a loss's shape: where something was seen, in words, and what curve it is there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch

from gradwright.checking.losses.case import Case
from gradwright.checking.losses.profile import Profile


def where(hits: Iterable[tuple[Profile, float]]) -> str:
    """The place of the first hit; ``|e| = ...`` if it is met on both sides.

    Of errors of both signs, 1 and -1 are one place: it is told as a magnitude.
    """
    hits = list(hits)
    profile, s = hits[0]
    sides = {other.ray.side for other, at in hits if abs(at - s) <= 1e-6 * (1 + abs(s))}
    if {1, -1} <= sides and not profile.ray.tell(s).startswith("prediction"):
        return f"|e| = {s:.4g}"
    return profile.ray.tell(s)


def told(value: float) -> str:
    return f"{value + 0.0:.4g}"  # no minus before a zero


def polynomial(points: Sequence[tuple[float, float]], degree: int = 3) -> list[float] | None:
    """Coefficients, constant first, of the polynomial through all ``points``; ``None`` if there is none of the degree.

    >>> polynomial([(s / 4, 1 - (s / 4) ** 2) for s in range(9)])
    [1.0, 0.0, -1.0]
    """
    if len(points) < degree + 3:
        return None
    xs = torch.tensor([x for x, _ in points], dtype=torch.float64)
    ys = torch.tensor([y for _, y in points], dtype=torch.float64)
    scale = float(xs.abs().max()) or 1.0
    size = float(ys.abs().max())
    for order in range(degree + 1):
        powers = (xs / scale)[:, None] ** torch.arange(order + 1, dtype=torch.float64)
        found = torch.linalg.lstsq(powers, ys[:, None]).solution.reshape(-1)
        if float((powers @ found - ys).abs().max()) <= 1e-9 * max(size, 1e-300):
            plain = [float(c) / scale**power for power, c in enumerate(found)]
            largest = max(map(abs, plain), default=0.0)
            return [round(c, 9) if abs(c) > 1e-9 * largest else 0.0 for c in plain]
    return None


def in_words(coefficients: Sequence[float], symbol: str) -> str:
    """A polynomial as it is written.

    >>> in_words([-0.5, 1.5, -1.0], "|e|")
    '-|e|^2 + 1.5 |e| - 0.5'
    """
    text = ""
    for power in range(len(coefficients) - 1, -1, -1):
        c = coefficients[power]
        if not c:
            continue
        unit = "" if power == 0 else symbol if power == 1 else f"{symbol}^{power}"
        size = "" if abs(c) == 1 and unit else f"{abs(c):.4g}{' ' if unit else ''}"
        sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
        text += f"{sign}{size}{unit}"
    return text or "0"


def is_log_likelihood(case: Case) -> bool:
    """Does exp(-loss) integrate to one over all errors? Then a constant in it is what normalises a density."""
    sides = {side: next((p for p in case.profiles if p.ray.side == side and p.ray.whole), None) for side in (1, -1)}
    if any(profile is None for profile in sides.values()):
        return False
    count = case.sample.prediction.numel()
    for divisor in (1, count):  # averaged, or summed up
        integral = 0.0
        for profile in sides.values():
            assert profile is not None
            for (a, fa, _), (b, fb, _) in pairwise(profile.points):
                middle = case.loss.attempt(profile.ray.at((a + b) / 2))
                ends = math.exp(-max(fa / divisor, -50.0)) + math.exp(-max(fb / divisor, -50.0))
                integral += (b - a) / 6 * (ends + 4 * math.exp(-max(middle / divisor, -50.0)))
        if abs(integral - 1) < 5e-3:
            return True
    return False
