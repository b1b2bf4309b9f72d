"""Schedulers of the learning rate: when they move on, between which backwards and steps.

Torch's own warning about a scheduler that moves before the first step names the line of the caller of ``step``: so
nothing is put around ``LRScheduler.step``, which would come between the two. The context that it computes its values in
is listened to instead; the schedulers that go without (schedules of schedules, restarts, plateaus) do not warn.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torch.optim import Optimizer, lr_scheduler

from gradwright.doctor.observe.training.ordering.frames import Places
from gradwright.doctor.observe.training.ordering.patches import Patches
from gradwright.doctor.observe.training.ordering.records import Records
from gradwright.doctor.observe.training.ordering.tallies import ScheduleTally
from gradwright.ground.torch_versions.optimizers import computes_rates, is_made, is_step_of_scheduler

_AROUND = ("SequentialLR", "ChainedScheduler", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau")
_UP = 8  # frames from here to the scheduler's own


class Schedules:
    """Notes each outermost move of a scheduler with the window of its optimizer."""

    def __init__(self, records: Records, places: Places) -> None:
        self._records, self._places = records, places
        self._depth = 0

    def install(self, patches: Patches) -> None:
        for name in _AROUND:
            if (kind := getattr(lr_scheduler, name, None)) is not None:
                patches.around(kind, "step", self._begins, self._ends)
        if (context := computes_rates()) is not None:
            patches.around(context, "__enter__", self._computes)

    def _begins(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._depth += 1
        if self._depth == 1:
            plateau = isinstance(args[0], lr_scheduler.ReduceLROnPlateau)
            if kwargs.get("epoch") is None and len(args) <= 1 + plateau:
                self._moves(args[0])

    def _ends(self, _: Any, __: Any) -> None:
        self._depth = max(self._depth - 1, 0)

    def _computes(self, args: tuple[Any, ...], _: dict[str, Any]) -> None:
        if self._depth == 0 and not _epoch_given():
            self._moves(args[0].o)

    def _moves(self, scheduler: Any) -> None:
        mine = vars(scheduler)
        optimizer = mine.get("optimizer")
        at = self._places.here()
        if not is_made(scheduler) or not isinstance(optimizer, Optimizer) or at is None:
            return  # it is being made
        record = self._records.of(optimizer)
        key = (type(scheduler).__name__, at)
        schedule = record.tally.schedules.setdefault(key, ScheduleTally(*key))
        schedule.calls += 1
        if record.steps and at in schedule.places_before_first:
            schedule.before_first = True
        elif record.steps == 0 and not record.skipped and not isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
            schedule.places_before_first.add(at)
        if record.window.micros:
            record.window.schedules[key] = record.window.schedules.get(key, 0) + 1


def _epoch_given() -> bool:
    """An epoch that is given says itself where the schedule is."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_UP):
        if frame is None:
            break
        code = frame.f_code
        if is_step_of_scheduler(code):
            return frame.f_locals.get("epoch") is not None
        frame = frame.f_back
    return False
