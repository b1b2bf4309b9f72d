"""How many hooks other people registered: what torch counts, without those of ours that can't touch a gradient.

NOTE [hooks of our own]: torch numbers the hooks of a process one after the other, whoever registers them, on whatever
(``RemovableHandle.next_id``). Where nobody but this library registered any, no gradient is changed by one. Two kinds of
ours count off: one beside the graph (of a module or an optimizer, which only looks) from the beginning, and one on a
tensor or a node from the time when it is taken off, after which it is not called again. One that is still on the graph
counts as anybody's. Counting errs on one side only: torch has counted a hook before it is counted off here, each hook
counts off once, and where threads meet, it is a step of our own count that is lost.
"""

from __future__ import annotations

import sys
from typing import Any

from torch.utils.hooks import RemovableHandle

_counted_off = 0


def hooks_of_others() -> int:
    """How many hooks of any kind this process registered so far, those of ours aside that can't touch a gradient."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return int(RemovableHandle.next_id)  # without the lock torch itself may lose count: then none is subtracted
    return int(RemovableHandle.next_id) - _counted_off


def beside_the_graph(handle: Any) -> Any:
    """``handle``: as torch gave it for a hook of ours on a module or an optimizer, which changes nothing."""
    _count_off(handle)
    return handle


class OnTheGraph:
    """The handle of a hook of ours on a tensor or a node; it counts as anybody's until it is removed."""

    __slots__ = ("_left",)

    def __init__(self, handle: Any) -> None:
        self._left = [handle]

    def remove(self) -> None:
        """May be called again."""
        try:
            handle = self._left.pop()  # one thread gets it
        except IndexError:
            return
        handle.remove()
        _count_off(handle)


def _count_off(handle: Any) -> None:
    global _counted_off
    if type(handle) is RemovableHandle:  # each of which torch counted
        _counted_off += 1
