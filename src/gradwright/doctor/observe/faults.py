"""Page faults of each backward: memory that the allocator hands back and takes anew, call by call.

They are counted for the whole process (torch's threads touch pages, too), and within the backward, where next to
nothing but torch's own buffers is allocated. What our own looking adds is taken off from what passes between two calls.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from gradwright.doctor.session.facts import Fact, PageFaults
from gradwright.doctor.session.model import Subject

try:
    import resource
except ImportError:  # Windows, where nothing is counted
    resource = None  # type: ignore[assignment]

_NOTHING = SimpleNamespace(ru_minflt=0, ru_utime=0.0, ru_stime=0.0, ru_maxrss=0)
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
_FEWEST = 4  # calls that tell what happens anew each time
_KEPT = 1024


class _Cost(NamedTuple):
    """Of one backward, or of all from one to the next."""

    faults: int
    seconds: float
    grown_bytes: int


@dataclass
class _Site:
    """``arrived``: at the last backward, and how many faults had been ours by then."""

    subject: Subject
    arrived: tuple[Any, int] | None = None
    reading: Any = None
    calls: list[_Cost] = field(default_factory=list)
    steps: list[_Cost] = field(default_factory=list)


class FaultWatch:
    """Told of each backward at four moments, which part what is the doctor's from what is the script's.

    Cost: 6 microseconds a backward.
    """

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}
        self._ours = 0

    def arrived(self, subject: Subject) -> None:
        """A backward is called; our own looking is still to come."""
        site = self._sites.setdefault(subject.id, _Site(subject))
        reading = _read()
        if site.arrived is not None:
            before, ours = site.arrived
            _keep(site.steps, before, reading, self._ours - ours)
        site.reading, site.arrived = reading, (reading, self._ours)

    def starts(self, subject: Subject) -> None:
        """Now the backward itself."""
        site, reading = self._sites[subject.id], _read()
        self._ours += reading.ru_minflt - site.reading.ru_minflt
        site.reading = reading

    def ended(self, subject: Subject) -> None:
        """Our looking follows."""
        site, reading = self._sites[subject.id], _read()
        _keep(site.calls, site.reading, reading, 0)
        site.reading = reading

    def left(self, subject: Subject) -> None:
        self._ours += _read().ru_minflt - self._sites[subject.id].reading.ru_minflt

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What is done in here is the doctor's."""
        before = _read()
        try:
            yield
        finally:
            self._ours += _read().ru_minflt - before.ru_minflt

    def facts(self) -> list[Fact]:
        known: list[Fact] = []
        for site in self._sites.values():
            if len(site.calls) >= _FEWEST:
                calls, steps = _settled(site.calls), _settled(site.steps)
                known.append(
                    PageFaults(
                        id=f"faults {site.subject.id}",
                        subject=site.subject.id,
                        calls=len(site.calls),
                        faults=_median(calls, lambda cost: cost.faults),
                        seconds=statistics.median(cost.seconds for cost in calls),
                        grown_bytes=sum(cost.grown_bytes for cost in steps) // len(steps),
                        step_faults=_median(steps, lambda cost: cost.faults),
                        step_seconds=statistics.median(cost.seconds for cost in steps),
                    )
                )
        return known


def _read() -> Any:
    """Of the process: page faults, CPU time, the most memory that it ever held."""
    return resource.getrusage(resource.RUSAGE_SELF) if resource is not None else _NOTHING


def _keep(costs: list[_Cost], one: Any, other: Any, ours: int) -> None:
    if len(costs) < _KEPT:
        seconds = other.ru_utime - one.ru_utime + other.ru_stime - one.ru_stime
        grown_bytes = _UNIT * (other.ru_maxrss - one.ru_maxrss)
        costs.append(_Cost(other.ru_minflt - one.ru_minflt - ours, seconds, grown_bytes))


def _settled(costs: Sequence[_Cost]) -> Sequence[_Cost]:
    """The later half: first calls load libraries and take memory that then stays."""
    return costs[len(costs) // 2 :]


def _median(costs: Sequence[_Cost], of: Callable[[_Cost], int]) -> int:
    return int(statistics.median(of(cost) for cost in costs))
