"""What the windows of an optimizer add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradwright.doctor.observe.training.ordering.accumulating import AccumulationTally
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

_MOST = 512


@dataclass
class ClipTally:
    """One place that clips this optimizer's gradients."""

    function: str
    location: Location
    limit: float | None
    calls: int = 0
    scaled_calls: int = 0
    first_scaled: int | None = None
    enabled: bool = True
    scale: float = 0.0
    steps: int = 0
    idle_steps: int = 0


@dataclass
class ScheduleTally:
    """One scheduler of this optimizer."""

    scheduler: str
    location: Location
    calls: int = 0
    accumulated: int = 0
    crowded: int = 0
    micro_batches: int = 0
    before_first: bool = False
    places_before_first: set[Location] = field(default_factory=set)


@dataclass
class ForwardTally:
    """One DistributedDataParallel model whose parameters this optimizer moves."""

    location: Location
    world_size: int
    accumulated: int = 0
    synchronised: int = 0
    micro_batches: int = 0
    forwards: int = 0
    synchronised_forwards: int = 0
    backward_inside: bool = False


@dataclass
class Tally:
    """What the windows of an optimizer, and of those made after it at the same place, add up to. ``by_hand``: its
    gradients were changed through ``.data``. ``judged``: steps whose windows were looked at."""

    subject: Subject | None = None
    by_hand: bool = False
    steps: int = 0
    judged: int = 0
    fed: int = 0
    emptied: int = 0
    first_emptied: int | None = None
    cleared_at: Location | None = None
    cleared_by: str = ""
    emptied_backward: Location | None = None
    repeated: int = 0
    first_repeated: int | None = None
    repeated_at: Location | None = None
    early_at: Location | None = None
    fed_at_early: int = 0
    wasted: int = 0
    wasted_divided: int = 0
    wasted_backwards: int = 0
    wasted_at: Location | None = None
    wasted_by: str = ""
    scaled: int = 0
    scaled_at: Location | None = None
    scale: float = 0.0
    places: dict[tuple[Any, ...], AccumulationTally] = field(default_factory=dict)
    clips: dict[Location, ClipTally] = field(default_factory=dict)
    schedules: dict[tuple[str, Location], ScheduleTally] = field(default_factory=dict)
    forwards: dict[Location, ForwardTally] = field(default_factory=dict)

    def accumulates(self, steps: int) -> bool:
        """Whether every window is worth a look: short ones come at the end of a round."""
        return steps < _MOST and any(place.accumulates for place in self.places.values())
