"""A ratio of two means with its uncertainty, and the noise scale as such a ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_NORMAL = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


@dataclass(frozen=True)
class NoiseScale:
    """What is known of the gradient's noise, in the items that the loss is divided by.

    ``noise_scale``: tr(Sigma) / |G|², None where it is not known, and ``why_not`` says why. ``low``, ``high``: its 95 %
    interval. ``squared_norm``, ``trace``: the estimates of |G|² and tr(Sigma). ``windows``: how many they are made of.
    ``batch``: how many items the last window had.
    """

    noise_scale: float | None
    low: float
    high: float
    squared_norm: float
    trace: float
    windows: int
    batch: float
    why_not: str = ""

    @property
    def batch_size(self) -> int | None:
        """The batch that it suggests, in items: the noise scale itself, where a step takes twice the least number of
        steps, and a run twice the least number of items (McCandlish et al. 2018, equations 2.11, 2.12)."""
        return None if self.noise_scale is None else max(1, round(self.noise_scale))

    def __str__(self) -> str:
        if self.noise_scale is None:
            return f"gradient noise scale: not known ({self.why_not})"
        told = f"gradient noise scale: {self.noise_scale:.3g} items (95 %: {self.low:.3g} to {self.high:.3g}), over "
        told += f"{self.windows} windows; a window has {self.batch:.3g}: "
        if self.batch < self.low:
            return told + "a larger one would save steps at little cost in items"
        if self.batch > self.high:
            return told + "a smaller one would save items at little cost in steps"
        return told + "about right"


class RatioOfMeans:
    """Means of pairs (x, y), the latest weighing most, and the interval of mean(x) / mean(y).

    Weights: decay^age. With W1 = sum(w), W2 = sum(w²), C = sum(w (z - mean)(z - mean)'), the covariance of the means is

        C / (W1 - W2 / W1) · W2 / W1²

    The interval is Fieller's: all r for which mean(x) - r mean(y) is within t standard deviations of zero; it has no
    end where mean(y) is not. Source: Fieller 1954; West 1979 (the running sums); Abramowitz and Stegun 26.7.5 (t).
    """

    def __init__(self, decay: float) -> None:
        self.decay, self.count = decay, 0
        self._w1 = self._w2 = 0.0
        self.x = self.y = 0.0
        self._xx = self._xy = self._yy = 0.0

    def add(self, x: float, y: float) -> None:
        self.count += 1
        self._w1, self._w2 = self._w1 * self.decay + 1, self._w2 * self.decay**2 + 1
        dx, dy = x - self.x, y - self.y
        self.x += dx / self._w1
        self.y += dy / self._w1
        self._xx = self._xx * self.decay + dx * (x - self.x)
        self._xy = self._xy * self.decay + dx * (y - self.y)
        self._yy = self._yy * self.decay + dy * (y - self.y)

    def interval(self) -> tuple[float, float] | None:
        """None where it has no end, or too little is known for one."""
        if self.count < 2:
            return None
        by = self._w2 / self._w1**2 / (self._w1 - self._w2 / self._w1)
        t = _student(self._w1**2 / self._w2 - 1)
        a = self.y**2 - t**2 * self._yy * by
        b = self.x * self.y - t**2 * self._xy * by
        c = self.x**2 - t**2 * self._xx * by
        root = b * b - a * c
        if a <= 0 or self.y <= 0 or root < 0:
            return None
        return (b - math.sqrt(root)) / a, (b + math.sqrt(root)) / a

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def _student(degrees: float) -> float:
    """Within how many standard deviations 95 % lie, by degrees of freedom."""
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
