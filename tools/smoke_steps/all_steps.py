"""Every step, those first that the others stand on."""

from __future__ import annotations

from collections.abc import Iterator

from smoke_steps import checking, derivatives, doctor, doors, torch_versions, training
from smoke_steps.step import Step, describe

ROOMS = (torch_versions, checking, derivatives, training, doctor)


def list_steps() -> Iterator[Step]:
    yield from (describe(run) for room in ROOMS for run in room.STEPS)
    yield from doors.steps_of_names()
