"""When enough was seen, all ranks stop after the same step: who stops alone leaves the others waiting in a collective.

NOTE [agreed stop]: the ranks of synchronous training are never more than one step apart: none leaves the backward of
step n + 1 before all have come to it, so none has ended step n + 2 when the leader has ended step n. When its time is
up, the leader writes "stop after n + 2" where all look after each of their steps. A script without an optimizer is
counted by its gradient calls. Ranks that share nothing stop each at its own step of that number.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.options import Options
from gradwright.doctor.ranks.meeting import read_whole, write_whole

_AHEAD = 2


def clock_of(options: Options) -> Clock:
    """Of a lone script, or of one rank. On several machines nothing is agreed: the time is the conductor's business."""
    if options.to_end:
        return Clock()
    if not options.meeting:
        return Clock(options.max_steps, options.max_seconds)
    if not options.agreed:
        return Clock(options.max_steps)
    return AgreedClock(options.max_steps, options.max_seconds, Path(options.meeting), leads=options.leads)


class AgreedClock(Clock):
    """The clock of one rank. ``folder``: that of the ranks' meeting; ``leads``: this one says when."""

    def __init__(self, max_steps: int | None, max_seconds: float | None, folder: Path, *, leads: bool) -> None:
        super().__init__(max_steps, max_seconds)
        self._place, self._leads = folder / "stop", leads
        self._agreed: tuple[str, int] | None = None

    def stop_if_enough(self) -> None:
        """As a lone clock's, but for the time: that ends the script after the agreed step."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self._process:
            return
        if self.max_steps is not None and self.steps >= self.max_steps:
            self.stop(f"after {self.steps} optimizer steps")
        if self.max_seconds is None:
            return
        if self._agreed is None:
            self._agreed = self._written() or self._decided()
        if self._agreed is not None:
            unit, at = self._agreed
            if (self.steps if unit == "steps" else self.gradients) >= at:
                self.stop(f"{self.max_seconds:g} s after the first gradient")

    def _written(self) -> tuple[str, int] | None:
        if self._leads or not self._place.exists():  # looked for after each step: a microsecond
            return None
        match read_whole(self._place):
            case [str(unit), int(at)]:
                return unit, at
        return None

    def _decided(self) -> tuple[str, int] | None:
        assert self.max_seconds is not None
        if not self._leads or self._seconds_of_gradients() < self.max_seconds:
            return None
        agreed = ("steps", self.steps + _AHEAD) if self.steps else ("gradients", self.gradients + _AHEAD)
        write_whole(self._place, agreed)
        return agreed
