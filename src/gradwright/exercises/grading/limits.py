"""What does not end is told with the line that it was at."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from gradwright.exercises.outcome import Failure, Outcome, Step

_LOOK_SECONDS = 0.05


class NoLimits:
    """For a caller that can wait, or be interrupted. ``steps``: what is done so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    @contextlib.contextmanager
    def during(self, now: str, times: float = 1.0) -> Iterator[None]:
        """``now``: what the learner's code is at; ``times``: how many limits that may take."""
        yield


class Limits(NoLimits):
    """In a process of its own: what takes longer ends the process, after it was told."""

    def __init__(self, seconds: float, file: Path, tell: Callable[..., None], *, seed: int) -> None:
        super().__init__()
        self._seconds, self._file, self._tell, self._seed = seconds, file, tell, seed
        self._now, self._end, self._allowed = "", float("inf"), seconds
        self._worker = threading.get_ident()
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def during(self, now: str, times: float = 1.0) -> Iterator[None]:
        if now != self._now:
            self._tell(now=now)
        self._now, self._allowed = now, times * self._seconds
        self._end = time.monotonic() + self._allowed
        try:
            yield
        finally:
            self._end = float("inf")

    def _watch(self) -> None:
        while time.monotonic() <= self._end:
            time.sleep(_LOOK_SECONDS)
        failure = Failure(
            f"it does not end: {self._now} took more than {self._allowed:g} s",
            where=_place(sys._current_frames().get(self._worker), self._file),
            do="look for a loop whose condition never becomes false; --seconds allows more",
        )
        outcome = Outcome((*self.steps, Step(self._now, False)), failure, seed=self._seed)
        self._tell(outcome=outcome.to_data())
        os._exit(1)


def _place(frame: FrameType | None, file: Path) -> str:
    """The innermost line of the learner's."""
    while frame is not None:
        if os.path.realpath(frame.f_code.co_filename) == os.path.realpath(file):
            line = linecache.getline(str(file), frame.f_lineno).strip()
            return f"{file.name}:{frame.f_lineno}, in {frame.f_code.co_name}: {line}"
        frame = frame.f_back
    return ""
