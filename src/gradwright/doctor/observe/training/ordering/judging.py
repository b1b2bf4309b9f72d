"""What one window shows, added to what all of them do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradwright.doctor.observe.training.ordering.accumulating import AccumulationTally, Micro, divided_by
from gradwright.doctor.observe.training.ordering.tallies import Tally
from gradwright.doctor.session.place import Location


@dataclass
class Window:
    """``micros``: backwards whose gradients are still there, ``reached``: which of the sample each changed. ``fed``:
    backwards that reached the optimizer at all; ``any``: or any other."""

    micros: list[Micro] = field(default_factory=list)
    reached: list[tuple[bool, ...]] = field(default_factory=list)
    fed: int = 0
    inside: int = 0
    last_backward: Location | None = None
    keys: set[tuple[Any, ...]] = field(default_factory=set)  # of all backwards that reached it
    cleared_at: Location | None = None  # since the last backward
    cleared_by: str = ""
    thrown_at: Location | None = None  # at any time
    thrown_by: str = ""
    by_hand: bool = False
    scaler: Any = None  # (enabled, scale) of the backwards that are not unscaled yet
    clips: dict[Location, bool] = field(default_factory=dict)  # whether each ran after a backward
    schedules: dict[tuple[str, Location], int] = field(default_factory=dict)
    forwards: dict[Location, list[int]] = field(default_factory=dict)  # how many, how many synchronised
    backward_inside: bool = False


@dataclass
class Seen:
    """What the step found as it began: ``emptied``, nothing to step on although a backward had reached the optimizer;
    ``scaled``: (enabled, scale) of a scaler that did not take this step. ``whole``: the window was watched from its
    beginning."""

    at: Location | None = None
    emptied: bool = False
    scaled: Any = None
    repeated: bool = False
    whole: bool = False


def judge(window: Window, tally: Tally, seen: Seen) -> None:
    """The window is over: add it to the tally."""
    number = tally.steps - 1
    tally.judged += 1
    if window.fed:
        tally.fed += 1
        tally.fed_at_early += tally.early_at is not None and tally.early_at == seen.at and not seen.emptied
    if seen.emptied and window.inside == 0:
        tally.emptied += 1
        if tally.first_emptied is None:
            tally.first_emptied, tally.emptied_backward = number, window.last_backward
            tally.cleared_at, tally.cleared_by = window.cleared_at, window.cleared_by
    if seen.scaled and seen.scaled[0]:
        tally.scaled += 1
        tally.scaled_at, tally.scale = seen.at, seen.scaled[1]
    if not window.fed or not seen.whole:
        return
    for at, after in window.clips.items():
        if at in tally.clips:
            tally.clips[at].steps += 1
            tally.clips[at].idle_steps += not after and not any(window.clips.values())
    groups: dict[tuple[Any, ...], list[Micro]] = {}
    alike = len(set(window.reached)) <= 1
    for micro in window.micros:
        # The last micro-batch may go backward in the step's closure, by other calls than those before it.
        groups.setdefault(micro.key[:1] if window.inside else micro.key, []).append(micro)
    if not window.by_hand:
        _judge_wasted(window, tally)
        for key, micros in groups.items():
            place = tally.places.setdefault(key, AccumulationTally(micros[0].site))
            place.add(number, micros, len(window.micros), alike=alike)
    most = max(map(len, groups.values()), default=0)
    if most > 1:
        _judge_accumulated(window, tally, most)


def _judge_wasted(window: Window, tally: Tally) -> None:
    """All backwards came from one place, and the last alone is left."""
    if window.fed > 1 and len(window.micros) == len(window.keys) == 1 and not window.inside:
        share = window.micros[0].share
        tally.wasted += 1
        tally.wasted_divided += divided_by(share, window.fed)
        tally.wasted_backwards = max(tally.wasted_backwards, window.fed)
        tally.wasted_at, tally.wasted_by = window.thrown_at, window.thrown_by


def _judge_accumulated(window: Window, tally: Tally, micro_batches: int) -> None:
    for key, schedule in tally.schedules.items():
        schedule.accumulated += 1
        schedule.micro_batches = max(schedule.micro_batches, micro_batches)
        schedule.crowded += window.schedules.get(key, 0) >= micro_batches - 1
    for at, (forwards, synchronised) in window.forwards.items():
        if (model := tally.forwards.get(at)) is None:
            continue
        model.accumulated += 1
        model.micro_batches = max(model.micro_batches, micro_batches)
        model.forwards += forwards
        model.synchronised_forwards += synchronised
        model.synchronised += synchronised > 1
        model.backward_inside = model.backward_inside or (synchronised > 1 and window.backward_inside)
