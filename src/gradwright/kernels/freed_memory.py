"""Large CPU buffers stay with the process, instead of being handed back and faulted in anew, page by page.

NOTE [What glibc does with large buffers]: one above ``M_MMAP_THRESHOLD`` is mapped for itself and unmapped on free. The
threshold adapts itself, up to 32 MiB, so that it is mostly larger buffers that come anew each time; smaller ones do
where they lie at the end of the heap and are trimmed. Setting either option turns the adapting off for good.
A thread other than the first has heaps of its own, of 64 MiB each: a larger buffer does not fit, and is mapped. A heap
in which nothing lies any more is unmapped, whatever the options say: what keeps one is mostly a crumb (below).

NOTE [Settling]: torch asks for aligned buffers. glibc cuts off what is before and after one, and keeps such crumbs in a
cache of seven for the thread, where they do not join their neighbours again: a buffer that was freed is some bytes too
small for the next one of its size, until the cache is full. So the first calls still meet new pages (up to nine were
seen), and the process grows by as many buffers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from gradwright.errors import UsageError
from gradwright.ground import allocator
from gradwright.ground.page_faults import IS_COUNTED, FreshBuffer, comes_anew, measure_fresh_buffer
from gradwright.ground.threads import at_most

MEASURED_BYTES: Final = 40_000_000
_LEAST: Final = 64 << 20  # up to 32 MiB glibc's own threshold adapts itself
_MOST: Final = (1 << 31) - 1  # mallopt takes an int
_NEVER: Final = -1


@dataclass(frozen=True)
class ThreadCost:
    """What a fresh buffer cost one thread, before and after."""

    thread: str
    before: FreshBuffer
    after: FreshBuffer

    def __str__(self) -> str:
        parts = [f"{cost.faults:,} page faults, {cost.seconds * 1e3:.1f} ms" for cost in (self.before, self.after)]
        return f"{self.thread:<16}{' -> '.join(parts)}"


@dataclass(frozen=True)
class RetainedMemory:
    """What ``retain_freed_memory`` did, and what came of it.

    ``works``: a buffer that this thread frees and asks for again keeps its pages, by a trial. ``reason``: why it does
    not, or why nothing changed. ``settings``: the options of glibc's that were set, which hold until the process ends.
    ``measured``: asked for with ``measure=True``.
    """

    threshold_bytes: int
    works: bool
    reason: str = ""
    settings: tuple[tuple[str, int], ...] = ()
    measured: tuple[ThreadCost, ...] = ()

    def __str__(self) -> str:
        if not self.settings:
            return f"retain_freed_memory does nothing here: {self.reason}"
        size = f"{self.threshold_bytes / (1 << 20):,.0f} MiB"
        first = f"freed buffers of up to {size} stay with this process" if self.works else "it does not help here"
        lines = [
            f"{first}: {self.reason}" if self.reason else first,
            "  set         " + ", ".join(f"{name} = {value:,}" for name, value in self.settings),
            "  for good    glibc's thresholds no longer adapt themselves, and freed memory is not given back",
            "  threads     the main one; in others a buffer of up to 64 MiB, unless it is the last thing in its heap",
        ]
        for number, cost in enumerate(self.measured):
            lines.append(f"  {'' if number else f'{cost.before.buffer_bytes / 1e6:.0f} MB sum':<12}{cost}")
        return "\n".join(lines)


def retain_freed_memory(threshold_bytes: int = 1 << 30, *, measure: bool = False) -> RetainedMemory:
    """From now on, CPU buffers of up to ``threshold_bytes`` keep their pages when they are freed.

    A fresh tensor above 32 MiB costs one page fault per 4 KiB, each time: a 40 MB sum takes 18 ms instead of 3 (glibc
    2.36, one thread). Through glibc's ``mallopt``: ``M_MMAP_THRESHOLD`` is set, and ``M_TRIM_THRESHOLD`` to never.

    It is process-wide, not a context: it holds for every library in the process and for children that are forked, not
    for those that are started anew. It can't be undone: glibc's own thresholds adapt themselves and can't be made to
    again, and the process stays as large as it ever was. (``ctypes.CDLL(None).malloc_trim(0)`` gives free pages back,
    once.) In the main thread any buffer is kept; in another thread those of up to 64 MiB, in heaps of its own, and
    there only while anything else lies in the same heap, as it mostly does. The first buffers of each size, up to nine,
    are still made of new pages (NOTE [Settling]).
    Call it early: buffers that live already are handed back when they are freed.

    Where glibc's malloc is not the one that serves (macOS, Windows, musl; jemalloc or tcmalloc preloaded) it does
    nothing, and the result says why. An older glibc, which refuses so large a threshold, is told to map no buffer at
    all, whatever its size (``M_MMAP_MAX = 0``); ``settings`` shows it.

    Args:
        threshold_bytes: 64 MiB to 2 GiB; up to 32 MiB glibc's threshold goes by itself.
        measure: time a fresh 40 MB tensor before and after, in this thread and in another.
    Cost: 1 ms; with ``measure`` a second and some 400 MB; all but 40 are given back, with all other free memory.
    Raises: UsageError for other sizes.

    >>> from gradwright.ground.forked import in_child  # so that this process stays as it is
    >>> in_child(lambda: retain_freed_memory().works, seconds=60).value
    True
    """
    if not _LEAST <= threshold_bytes <= _MOST:
        raise UsageError(
            f"retain_freed_memory(threshold_bytes={threshold_bytes}): it takes {_LEAST:,} (64 MiB) to {_MOST:,}\n"
            "  why  up to 32 MiB glibc's own threshold adapts itself; mallopt takes an int\n"
            "  do   leave it out: 1 GiB"
        )
    if not (allocator.glibc_version() and IS_COUNTED):
        return RetainedMemory(threshold_bytes, works=False, reason="the C library is not glibc, whose options it sets")
    if other := allocator.stand_in():
        return RetainedMemory(
            threshold_bytes, works=False, reason=f"buffers come from {other}, not from glibc's malloc"
        )
    stayed = not comes_anew(MEASURED_BYTES)
    before = _costs() if measure else {}
    settings = _set(threshold_bytes)
    works = not comes_anew(MEASURED_BYTES)
    after = _costs() if measure else {}
    if measure:
        allocator.give_back()
    reason = "they did before, too" if stayed else ""
    if not works:
        reason = "buffers still come anew, by a trial: torch takes them from elsewhere than glibc's malloc"
    measured = tuple(ThreadCost(thread, before[thread], after[thread]) for thread in before)
    return RetainedMemory(threshold_bytes, works, reason, settings, measured)


def _set(threshold_bytes: int) -> tuple[tuple[str, int], ...]:
    wanted = [("M_MMAP_THRESHOLD", threshold_bytes), ("M_TRIM_THRESHOLD", _NEVER)]
    settings = [(name, value) for name, value in wanted if allocator.set_option(name, value)]
    if wanted[0] not in settings and allocator.set_option("M_MMAP_MAX", 0):
        settings.append(("M_MMAP_MAX", 0))
    return tuple(settings)


def _costs() -> dict[str, FreshBuffer]:
    """Of a fresh buffer, by thread. The other one is new, with nothing kept from before."""
    costs: dict[str, FreshBuffer] = {}
    with at_most(1):
        costs["this thread"] = measure_fresh_buffer(MEASURED_BYTES)

        def in_another() -> None:
            costs["another thread"] = measure_fresh_buffer(MEASURED_BYTES)

        thread = threading.Thread(target=in_another, name="gradwright-page-faults")
        thread.start()
        thread.join()
    return costs
