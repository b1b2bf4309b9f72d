"""Seen while the script trained: a profiler that was on."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerOn(Fact):
    """A profiler of torch's that keeps events was on at ``under`` of ``backwards`` backwards. ``location``: where it
    was started."""

    backwards: int
    under: int
    location: Location | None
