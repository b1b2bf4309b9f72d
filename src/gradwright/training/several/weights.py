"""What each of several losses weighs in the update: a number, or a function of how many updates were made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from torch import Tensor

from gradwright.errors import UsageError

Weight: TypeAlias = float | Callable[[int], float]


class Weights:
    """``weights``: of every loss, by name; None: all weigh 1. A weight that is learned is part of a loss, no number."""

    def __init__(self, weights: Mapping[str, Weight] | None) -> None:
        """Raises: UsageError."""
        if weights is not None and (not isinstance(weights, Mapping) or not weights):
            raise UsageError(f"weights= is a mapping from the losses' names to their weights, not {weights!r}")
        self._weights = None if weights is None else dict(weights)
        for name, weight in (self._weights or {}).items():
            if not callable(weight):
                _number(name, weight)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._weights or ())

    def at(self, update: int, names: Iterable[str]) -> dict[str, float]:
        """The weights of these losses in the update that has ``update`` others before it.

        Raises: UsageError for a loss that has none: a name that was mistyped would silently weigh 1.

        >>> Weights({"ce": 1.0, "aux": lambda update: min(1.0, update / 100)}).at(25, ["ce", "aux"])
        {'ce': 1.0, 'aux': 0.25}
        """
        if self._weights is None:
            return dict.fromkeys(names, 1.0)
        found = {}
        for name in names:
            if name not in self._weights:
                said = ", ".join(repr(one) for one in self._weights)
                raise UsageError(f"the loss {name!r} has no weight: weights= names {said}. Give each loss one")
            weight = self._weights[name]
            found[name] = _number(name, weight(update) if callable(weight) else weight)
        return found


def _number(name: str, weight: object) -> float:
    if isinstance(weight, Tensor) and weight.requires_grad:
        raise UsageError(
            f"the weight of {name!r} requires a gradient: a weight that is learned (uncertainty weighting) belongs "
            "into the loss itself, so that it is trained; weights= are numbers"
        )
    if isinstance(weight, Tensor) and weight.numel() == 1:
        weight = weight.item()
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
        raise UsageError(f"the weight of {name!r} is {weight!r}: it is a number, or a function of the update's number")
    return float(weight)
