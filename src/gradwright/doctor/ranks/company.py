"""What being one of several changes for who waits on a script: when it is asked to stop, and when it is killed.

A script that waits in a collective hears no polite signal before its peer has gone: while a peer is still trying its
own subjects, it is waited for. What its peer's end frees then ends as it would have without us.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gradwright.doctor.options import Options
from gradwright.doctor.ranks.identity import Rank
from gradwright.doctor.ranks.meeting import Meeting

_STUCK_SECONDS = 30.0  # without a sign of life and without work, after a peer has gone for good
_IDLE_SECONDS = 0.75  # of the processor in that time: threads that only poll
_LOOK_SECONDS = 1.0
_WITHIN_INTERRUPT = 12.0  # torchrun kills 30 s after Ctrl-C; the leader has to merge in that time as well
_LEAST_SLACK, _STEPS_OF_SLACK = 0.5, 4


class Company:
    """The peers of one rank, as its conductor sees them."""

    def __init__(self, rank: Rank, meeting: Meeting) -> None:
        self._rank, self._meeting = rank, meeting
        self._peers = [peer for peer in rank.here if peer != rank.rank]
        self._over = self._alive = False
        self._looked_at = self._quiet_since = time.monotonic()
        self._work = 0.0

    def script_is_over(self) -> None:
        if not self._over:
            self._over = True
            self._meeting.script_is_over()

    def slack(self, options: Options, seen: int) -> float:
        """Seconds past ``max_seconds`` in which the ranks may come to the agreed step. ``seen``: steps so far."""
        if not self._rank.alone_on_one_machine:
            return 1.0  # nothing is agreed: each is asked when its time is up
        return max(_LEAST_SLACK * options.max_seconds, _STEPS_OF_SLACK * options.max_seconds / max(seen, 1))

    def is_stuck(self, pid: int, signs_of_life: bool) -> bool:
        """A peer has gone for good, and since a while this script neither works nor tells anything: it waits for it."""
        self._alive = self._alive or signs_of_life
        now = time.monotonic()
        if now < self._looked_at + _LOOK_SECONDS:
            return False
        self._looked_at = now
        work = _idle_at(pid)
        if work is None or self._alive or work > self._work + _IDLE_SECONDS or not self._a_peer_has_gone():
            self._alive, self._quiet_since, self._work = False, now, work or 0.0
            return False
        return now - self._quiet_since > _STUCK_SECONDS

    def _a_peer_has_gone(self) -> bool:
        here = (peer for peer in self._peers if self._meeting.is_here(peer))
        return any(self._meeting.handed_over(peer) is not None or not self._meeting.is_alive(peer) for peer in here)

    def may_be_freed(self) -> bool:
        """A peer whose script is over is still at work: its end may be what this script waits for."""
        return any(
            self._meeting.script_of_is_over(peer)
            and self._meeting.handed_over(peer) is None
            and self._meeting.is_alive(peer)
            for peer in self._peers
        )

    def out_of_time(self, interrupted_at: float | None) -> bool:
        """Whoever started the ranks, interrupted itself, would soon kill us all."""
        within = _WITHIN_INTERRUPT + (3.0 if self._rank.leads else 0.0)
        return interrupted_at is not None and time.monotonic() > interrupted_at + within


def _idle_at(pid: int) -> float | None:
    """The processor seconds that a sleeping process has used; ``None`` if one of its threads runs, or would if a busy
    machine let it, and where the system does not say."""
    try:
        of_threads = [Path(thread, "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
        if any(_fields(text)[0] in "RD" for text in of_threads):
            return None
        fields = _fields(Path(f"/proc/{pid}/stat").read_text())
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _fields(stat: str) -> list[str]:
    """What follows the name of the program, which may hold anything."""
    return stat.rpartition(")")[2].split()


@dataclass
class Interruptions:
    seen: bool = False

    def note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptions() -> Iterator[Interruptions]:
    """SIGTERM, which torchrun sends when another rank has failed, counts as Ctrl-C: what is known is still told."""
    noted = Interruptions()
    before = [(number, signal.signal(number, noted.note)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield noted
    finally:
        for number, handler in before:
            signal.signal(number, handler)
