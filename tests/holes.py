"""Free memory inside this process's heap: a buffer that fits there meets no new page, whatever its size.

A worker that has run ten thousand tests may have a hole of 40 MB, and a child of it has its parent's holes.
"""

from collections.abc import Callable
from typing import Any

import torch

from gradwright.ground.forked import in_child

LARGE = 40_000_000  # above what glibc's threshold adapts itself to
PAGES = LARGE // 4096


def hold_the_holes() -> list[torch.Tensor]:
    """Buffers that take up each hole of ``LARGE`` bytes while they are held: 2.5 GB of addresses, no memory."""
    return [torch.empty(LARGE, dtype=torch.uint8) for _ in range(64)]


def in_child_without_holes(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a child in which a buffer of ``LARGE`` bytes comes from the system."""

    def hold_and_work() -> Any:
        _holes = hold_the_holes()
        return work()

    outcome = in_child(hold_and_work, seconds=120, memory_bytes=8 << 30)
    assert outcome.how == "returned", outcome.why
    return outcome.value
