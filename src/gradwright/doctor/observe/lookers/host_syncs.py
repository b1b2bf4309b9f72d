"""Where a script that trains on a GPU waits for it in every step, how often, and for how long."""

from __future__ import annotations

import time

from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.observe.training import waits
from gradwright.doctor.session.facts import Fact, HostSync
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.places import location_in
from gradwright.ground.torch_versions.levels import TRANSFORMS
from gradwright.ground.torch_versions.modes import FUNCTIONS

FIRST = 16  # steps before: other lookers look at the first ones, and kernels are compiled there
STEPS = 8
_TRIED = 64  # steps on which it was not possible: a mode of the user's, something compiled


class HostSyncs(Looker):
    """Eight steps of the first optimizer that steps on a GPU are looked at. Cost there: a microsecond an operation;
    nothing where there is no GPU."""

    looks_at = "where the script waits for a GPU"
    needs = (TRANSFORMS, FUNCTIONS)

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._waits = waits.Waits(self.on_fault)
        self._subject: Subject | None = None
        self._steps = self._looked = self._tried = self._first = 0
        self._is_on = False
        self._started = self._seconds = 0.0

    def remove(self) -> None:
        self._waits.stop()

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        if self._subject is None and _is_on_device(optimizer):
            self._subject = subject
        if self._subject is None or subject.id != self._subject.id or self._looked == STEPS:
            return
        self._steps += 1
        if self._is_on:
            self._looked += 1
            self._seconds = time.perf_counter() - self._started
            self._waits.step += 1
        if self._looked == STEPS or self._tried == _TRIED:
            self._is_on = False
            self._waits.stop()
        elif self._steps >= FIRST:
            was_on, self._is_on = self._is_on, self._waits.start()
            self._tried += not self._is_on
            if self._is_on and not was_on:
                self._waits.waits.clear()
                self._looked, self._first, self._started = 0, self._steps, time.perf_counter()

    def facts(self) -> list[Fact]:
        if self._subject is None or self._looked < STEPS:
            return []
        found: list[Fact] = []
        for number, wait in enumerate(self._waits.waits.values()):
            found.append(
                HostSync(
                    id=f"waits {number} {self._subject.id}",
                    subject=self._subject.id,
                    location=location_in(wait.code, wait.instruction, wait.line),
                    call=wait.call,
                    calls=wait.calls,
                    seen_in=wait.seen_in,
                    steps=self._looked,
                    first_step=self._first,
                    seconds=wait.seconds,
                    step_seconds=self._seconds / self._looked,
                )
            )
        return found


def _is_on_device(optimizer: Optimizer) -> bool:
    first = next((parameter for group in optimizer.param_groups for parameter in group["params"]), None)
    return first is not None and waits.is_on_device(first)
