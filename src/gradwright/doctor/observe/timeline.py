"""What happened when: the first spans of the run, kept as plain tuples until they are written down.

NOTE [cheap spans]: a span is one tuple appended to one list, which needs no lock in Python; all else (names of threads,
seconds since the beginning, columns) is done when it is written. A call costs 0.2 microseconds.
"""

from __future__ import annotations

import threading

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.session.facts import Span, Timeline

MOST = 5_000  # spans in all: some 400 kB of the session
CHUNK = 250  # of one fact: a chunk that is full is written once


class TimelineRecord:
    """Spans in the order in which they ended, from any thread. What comes after the first ``most`` is counted."""

    def __init__(self, clock: Clock, most: int = MOST, chunk: int = CHUNK) -> None:
        self._clock, self._most, self._chunk = clock, most, chunk
        self._spans: list[tuple[str, Span, float, float, int, int]] = []
        self._full = False
        self._dropped = 0
        self._lock = threading.Lock()
        self._threads: dict[int, int] = {}
        self._written = 0  # chunks that were full when they were handed out

    def add(self, whom: str, span: Span, started: float, ended: float) -> None:
        """``whom``, a subject's id, did ``span`` from ``started`` to ``ended`` (``perf_counter`` seconds)."""
        if self._full:
            with self._lock:
                self._dropped += 1
            return
        self._spans.append((whom, span, started, ended, threading.get_ident(), self._clock.steps))
        self._full = len(self._spans) >= self._most

    def unwritten(self) -> list[Timeline]:
        """The chunks that are not full, or were not when this was asked last. Cost: 1 ms a chunk, written down."""
        kept = len(self._spans)
        chunks = [self._fact(at, kept) for at in range(self._written, -(-kept // self._chunk))]
        last = (self._most - 1) // self._chunk  # goes on: it counts what had no room
        self._written = min(kept // self._chunk, last)
        return chunks

    def _fact(self, number: int, kept: int) -> Timeline:
        first = number * self._chunk
        last = min(first + self._chunk, kept)
        spans = self._spans[first:last]
        began = self._clock.began
        # Both ends are rounded, so that a span that lies within another still does.
        ends = [(round(started - began, 9), round(ended - began, 9)) for _, _, started, ended, _, _ in spans]
        return Timeline(
            id=f"timeline {number}",
            subject="script",
            whom=tuple(one[0] for one in spans),
            spans=tuple(one[1] for one in spans),
            starts=tuple(start for start, _ in ends),
            seconds=tuple(round(end - start, 9) for start, end in ends),
            threads=tuple(self._threads.setdefault(one[4], len(self._threads)) for one in spans),
            steps=tuple(one[5] for one in spans),
            dropped=self._dropped if last == kept else 0,
        )
