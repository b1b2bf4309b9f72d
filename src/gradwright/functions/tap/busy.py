"""A tap within a tap's own work (a callback that has one) passes on without looking."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()


@contextmanager
def alone() -> Iterator[bool]:
    """Is this thread at no tap's work yet? If so, it is until the end of the block."""
    if getattr(_local, "busy", False):
        yield False
        return
    _local.busy = True
    try:
        yield True
    finally:
        _local.busy = False
