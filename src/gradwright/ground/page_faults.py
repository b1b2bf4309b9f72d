"""Page faults: what it costs that memory comes from the system anew, counted and timed.

A buffer that the allocator hands back to the system on ``free`` comes back as pages that are mapped and zeroed one by
one, at the first touch of each.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass

import torch

IS_COUNTED = sys.platform == "linux"  # elsewhere there is no count by thread


@dataclass(frozen=True, slots=True)
class FreshBuffer:
    """What one fresh buffer costs a thread: page faults, and seconds of CPU time (a busy machine adds none)."""

    buffer_bytes: int
    faults: int
    seconds: float


def faults_of_this_thread() -> int:
    """Page faults without I/O, since the thread began. Cost: half a microsecond.

    >>> before = faults_of_this_thread()
    >>> del bytearray(1 << 26)[:1]
    >>> faults_of_this_thread() > before
    True
    """
    import resource

    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def measure_fresh_buffer(buffer_bytes: int, rounds: int = 16) -> FreshBuffer:
    """The sum of two tensors, in a buffer that is allocated for it: the median of the last three of ``rounds`` times.

    How many of the first rounds meet new pages hangs on what the allocator had; the last ones show what stays.
    torch should be held to one thread (``threads.at_most``): pages that others touch are counted with those.
    Cost: ``2 * buffer_bytes`` of memory, and ``rounds`` passes over it.
    """
    ones = torch.ones(buffer_bytes // 4)
    made = []
    for _ in range(rounds):
        before, started = faults_of_this_thread(), time.thread_time()
        buffer = ones + ones
        ended, after = time.thread_time(), faults_of_this_thread()
        del buffer
        made.append((after - before, ended - started))
    faults, seconds = zip(*made[-3:], strict=True)
    return FreshBuffer(buffer_bytes, int(statistics.median(faults)), statistics.median(seconds))


def comes_anew(buffer_bytes: int, rounds: int = 12) -> bool:
    """Whether a buffer of this size, freed and asked for again, is made of new pages each time, in this thread.

    64 places of it are touched, no more. Cost: half a millisecond.
    """
    met = []
    for _ in range(rounds):
        buffer = torch.empty(buffer_bytes, dtype=torch.uint8)
        before = faults_of_this_thread()
        buffer[:: buffer_bytes // 64] = 0
        met.append(faults_of_this_thread() - before)
        del buffer
    return min(met[1:]) >= 8  # fewer than 64 where pages are large: 40 MB are 20 of 2 MiB
