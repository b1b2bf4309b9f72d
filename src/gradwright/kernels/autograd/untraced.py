"""Functions that Dynamo leaves alone, with all that they call.

Where a graph breaks around a call (under torch.func), Dynamo still compiles, frame by frame, what is called on the way:
seconds for nothing. ``torch.compiler.disable`` is too dear for a small call; a mark on the code object costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """The function: neither its frame nor those below it are compiled."""
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return function


_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
