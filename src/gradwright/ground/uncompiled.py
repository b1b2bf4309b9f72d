"""Functions that Dynamo leaves alone.

Where a graph breaks around a call, Dynamo still compiles, one by one, the functions that are called on the way, among
them those that look at version counters, which it takes for constants. What ``torch.compiler.disable`` does is too dear
for a small call; a mark on the code object costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """The function, whose own frame Dynamo never compiles; what it calls may be."""
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return function


def uncompiled_throughout(function: F) -> F:
    """The function, of which Dynamo compiles neither its own frame nor what it calls."""
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP_ALL)
    return function


_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT)
_SKIP_ALL = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)
uncompiled(uncompiled)
uncompiled(uncompiled_throughout)
