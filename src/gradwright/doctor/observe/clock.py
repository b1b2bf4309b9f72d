"""The watched time: from the first gradient work to the last, and the moment when enough was seen."""

from __future__ import annotations

import os
import threading
import time


class StoppedEarly(KeyboardInterrupt):
    """Raised in the script once enough was seen: a ``KeyboardInterrupt``, so that loops end as they do on Ctrl-C."""


class Clock:
    """Counts steps, holds the watched window and decides when enough was seen.

    ``max_steps`` optimizer steps or ``max_seconds`` after the first gradient; ``None`` is no limit.
    """

    def __init__(self, max_steps: int | None = None, max_seconds: float | None = None) -> None:
        self.max_steps, self.max_seconds = max_steps, max_seconds
        self.steps = 0
        self.gradients = 0
        self.stopped_early: str | None = None
        self.first_gradient: float | None = None
        self._first: float | None = None
        self._last = 0.0
        self.skipped = 0.0
        self.began = time.perf_counter()  # the script itself
        self.over = False
        self._raised = 0
        self._process = os.getpid()

    def saw(self, started: float, ended: float) -> None:
        """Work on gradients from ``started`` to ``ended`` (``perf_counter`` seconds), unless all is ``over``."""
        if self.over:
            return
        if self._first is None:
            self._first = started
        self._last = ended

    def skip(self, seconds: float) -> None:
        """Time inside the window that is not the script's own: our looking, a library's first import."""
        if self._first is not None and not self.over:
            self.skipped += seconds

    def skip_since(self, arrived: float) -> None:
        """All from ``arrived`` (``perf_counter`` seconds) until now."""
        self.skip(time.perf_counter() - arrived)

    @property
    def window(self) -> float:
        """Seconds watched so far, less what was skipped; never zero."""
        return max(self._last - self._first - self.skipped, 1e-9) if self._first is not None else 1e-9

    def share(self, seconds: float) -> float:
        return min(1.0, seconds / self.window)

    def saw_gradient(self) -> None:
        self.gradients += 1
        if self.first_gradient is None:
            self.first_gradient = time.perf_counter()

    def stop_if_enough(self) -> None:
        """Raises ``StoppedEarly`` in the script's main thread once enough was seen: three times at most, should the
        script swallow it."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self._process:
            return
        if self.max_steps is not None and self.steps >= self.max_steps:
            self.stop(f"after {self.steps} optimizer steps")
        elif self.max_seconds is not None and self._seconds_of_gradients() >= self.max_seconds:
            self.stop(f"{self.max_seconds:g} s after the first gradient")

    def _seconds_of_gradients(self) -> float:
        return 0.0 if self.first_gradient is None else time.perf_counter() - self.first_gradient

    def stop(self, why: str, *, always: bool = False) -> None:
        self.stopped_early = why
        if always or self._raised < 3:
            self._raised += 1
            raise StoppedEarly(why)
