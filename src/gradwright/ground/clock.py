"""Seconds as they would be on an idle machine: those in which others had the cores do not count.

A limit or a speed by the wall clock says on a busy machine what it does not say on an idle one. What a process waits
for a core the system counts (Linux: ``/proc/<pid>/schedstat``); elsewhere these seconds are the wall clock's. Sleeping,
and waiting for files or other processes, count as ever.
"""

from __future__ import annotations

import os
import time

_STALE = 0.01  # so long a reading is good for: as much may be missing


def waited(process: int | None = None) -> float:
    """Seconds in which a process (this one) was ready to run and others had the cores; 0 where nobody tells.

    Of its first thread. Cost: about 7 us.
    """
    try:
        file = os.open(f"/proc/{process or 'self'}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _, waiting, _ = os.read(file, 100).split()  # after its time on a core
        finally:
            os.close(file)
        return int(waiting) / 1e9
    except (OSError, ValueError):
        return 0.0


def now() -> float:
    """``time.monotonic()`` less what this process waited for a core: for deadlines, also of forked children.

    Cost: below 1 us, and that of ``waited`` every 10 ms.

    >>> deadline = now() + 5.0
    >>> now() < deadline
    True
    """
    real = time.monotonic()
    if real > _reading.at + _STALE:
        _reading.take(real)
    return real - _reading.waited


def not_counted() -> float:
    """All seconds that ``now`` leaves out so far."""
    _reading.take(time.monotonic())
    return _reading.waited


def leave_out(seconds: float) -> None:
    """Time in which this process waited for another one, which waited for a core."""
    _reading.add(seconds)


class Stopwatch:
    """Runs from where it is made; neither reading it nor starting it is in what it tells.

    A wait for a core may fall just beside what is timed, where it was read how long such waits were: as much as reading
    took is not taken off.

    >>> watch = Stopwatch()
    >>> 0.0 <= watch.seconds() < 60.0
    True
    """

    def __init__(self) -> None:
        before = time.perf_counter()
        self._waited = waited()
        self._began = time.perf_counter()
        self._beside = self._began - before

    def seconds(self) -> float:
        """Since it was made."""
        end = time.perf_counter()
        inside = waited() - self._waited - self._beside - (time.perf_counter() - end)
        return end - self._began - max(0.0, inside)


class _Reading:
    """What this process had waited when that was last looked at. A fork begins at nothing, and takes this over."""

    def __init__(self) -> None:
        self.at, self.waited, self._before = float("-inf"), 0.0, 0.0

    def take(self, at: float) -> None:
        self.at, self.waited = at, max(self.waited, self._before + waited())

    def add(self, seconds: float) -> None:
        self._before += seconds
        self.waited += seconds

    def begin_again(self) -> None:
        self._before = self.waited


_reading = _Reading()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reading.begin_again)
