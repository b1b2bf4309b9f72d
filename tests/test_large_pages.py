"""Memory that is gathered in large pages holds what it held, and only what is in use is gathered."""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

from tests.large_pages import _private, gather_in_large_pages

MAPS = """\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                2048 kB
7f0000400000-7f0000800000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                2044 kB
7f0000800000-7f0000c00000 r--p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
7f0000c00000-7f0001000000 rw-p 00000000 fe:00 12   /lib/libtorch.so
Size:               4096 kB
Rss:                4096 kB
7f0001000000-7f0001400000 rw-p 00000000 00:00 0    [stack]
Size:               4096 kB
Rss:                4096 kB
7f0001400000-7f0001800000 rw-p 00000000 00:00 0    [heap]
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                4096 kB
"""


def test_what_belongs_to_no_file_and_is_in_use() -> None:
    assert _private(MAPS) == [(0x7F0000000000, 0x7F0000400000), (0x7F0001400000, 0x7F0001800000)]


def large_bytes() -> int:
    (line,) = [
        one for one in Path("/proc/self/smaps_rollup").read_text().splitlines() if one.startswith("AnonHugePages")
    ]
    return int(line.split()[1]) << 10


def test_memory_holds_what_it_held() -> None:
    gather_in_large_pages()
    before = large_bytes()
    # 32 MiB from the system: what Python is asked for may lie in a hole that is in large pages already.
    numbers = mmap(-1, 32 << 20, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    numbers[:] = bytes(range(256)) * (32 << 12)
    gathered = gather_in_large_pages()
    assert numbers[:] == bytes(range(256)) * (32 << 12)
    assert not gathered or large_bytes() >= before + (28 << 20)  # a system may not be able to
