"""Memory of this process in pages of 2 MiB: a fork copies the table of pages, and later each page that is written.

A process with torch loaded has 60,000 pages of 4 KiB: a fork of it, with the child's end, takes 26 ms of CPU, and 7 ms
once they are large (Linux 6.18, 2 cores; some 10,000 forks in a run of all tests).
"""

import ctypes
import re
from pathlib import Path

_LARGE = 2 << 20
_COLLAPSE = 25  # MADV_COLLAPSE, from Linux 6.1 on: an older one refuses it, and nothing changes


def gather_in_large_pages() -> int:
    """How many bytes lie in them now that could be gathered. Cost: they are copied once."""
    try:
        advise = ctypes.CDLL(None).madvise
        maps = Path("/proc/self/smaps").read_text()
    except (OSError, AttributeError):
        return 0
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    gathered = 0
    for start, end in _private(maps):
        first, last = -(-start // _LARGE) * _LARGE, end // _LARGE * _LARGE
        if first < last and advise(first, last - first, _COLLAPSE) == 0:
            gathered += last - first
    return gathered


_AREA = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?\n(?:[A-Z]\w+:.*\n)*?Rss: +(\d+) kB", re.M)


def _private(maps: str) -> list[tuple[int, int]]:
    """Areas that belong to no file and are in use for the better part: gathered, they are in use whole."""
    areas = [(int(start, 16), int(end, 16), int(used) << 10) for start, end, used in _AREA.findall(maps)]
    return [(start, end) for start, end, used in areas if 2 * used >= end - start]
