"""Observed: derivatives that are finite and far too large."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalisedZeros(Fact):
    """``torch.nn.functional.normalize`` was given rows shorter than its ``eps``, and a gradient went through them.

    ``zeros`` of ``rows``: in the first such call; ``largest``: the largest entry, in size, of a leaf's gradient after
    that backward, of the leaf ``leaf`` (its shape), with ``backwards`` before it. ``times``: backwards that showed it.
    """

    location: Location
    zeros: int
    rows: int
    eps: float
    largest: float
    leaf: tuple[int, ...]
    backwards: int
    times: int
