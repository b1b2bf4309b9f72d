"""What the script's own looks for NaN come upon: ``if torch.isnan(loss): break`` lets no such loss go backward.

The hook stands in the branch that such a look leads to (``source.own_looks``): it is the script that says so.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import Fact, OwnLook
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in


@dataclass
class _Seen:
    how: str
    site: str
    step: int
    times: int = 0


class OwnLooks(Looker):
    """Cost: a count at each backward."""

    looks_at = "the script's own checks for NaN"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._losses: Counter[str] = Counter()
        self._last = ""
        self._seen: dict[Location, _Seen] = {}

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        if root is not None and root.numel() == 1:
            self._losses[site.id] += 1
            self._last = site.id

    def facts(self) -> list[Fact]:
        return [
            OwnLook(
                id=f"look {at}",
                subject="script",
                location=at,
                how=seen.how,
                times=seen.times,
                site=seen.site,
                step=seen.step,
            )
            for at, seen in self._seen.items()
        ]

    def own_look(self, frame: FrameType, how: str, trains: bool, value: Any) -> None:
        if not of_training(trains, value):
            return
        at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
        seen = self._seen.setdefault(at, _Seen(how, self._last, self._losses[self._last]))
        seen.times += 1


def of_training(trains: bool, value: Any) -> bool:
    """Whether what was looked at goes into a backward: it has a graph; it is a number, a parameter (its gradient) or
    something that holds tensors, in a function that calls ``backward``. A batch of data is not."""
    if isinstance(value, Tensor):
        return value.grad_fn is not None or (trains and value.requires_grad)
    if isinstance(value, float):
        return trains and not math.isfinite(value)
    return trains
