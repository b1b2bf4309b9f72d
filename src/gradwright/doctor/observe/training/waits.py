"""Calls of the script that wait for the GPU: counted and timed under a torch function mode, a few steps long.

What waits is known by name. A boolean mask waits because the shape of the result hangs on its values. No value is read
here, and the clock is the host's. What other lookers read of a GPU at a step's end shortens what the script waits for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.observe.training.one_step import OneStep
from gradwright.doctor.source.places import is_user_file

_CALLS = {
    "__bool__": "bool()", "__float__": "float()", "__int__": "int()", "__index__": "int()", "__complex__": "complex()",
    "__repr__": "print()", "__format__": "format()", "item": "item()", "tolist": "tolist()", "cpu": "cpu()",
    "to": "to()", "numpy": "numpy()", "nonzero": "nonzero()", "argwhere": "argwhere()", "where": "where()",
    "masked_select": "masked_select()", "unique": "unique()", "unique_consecutive": "unique_consecutive()",
    "equal": "equal()", "allclose": "allclose()", "is_nonzero": "is_nonzero()", "__getitem__": "a boolean mask",
}  # fmt: skip
# Python functions of torch's own between such a call and whoever made it.
_BETWEEN = {str(Path(torch.__file__).with_name(name)) for name in ("_tensor.py", "overrides.py", "_jit_internal.py")}
_BETWEEN |= {str(Path(torch.__file__).with_name("functional.py"))}


@dataclass
class Wait:
    """One call of the script's. ``last``: the step in which it was made last."""

    call: str
    code: CodeType
    instruction: int
    line: int
    calls: int = 0
    seen_in: int = 0
    last: int = -1
    seconds: float = 0.0


class Waits(OneStep):
    """Writes down what waits, over several steps: ``step`` is the number of the present one."""

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__(on_fault)
        self._found: Callable[..., None] = guarded(self._add, on_fault)
        self.step = 0
        self.waits: dict[tuple[CodeType, int, str], Wait] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = _CALLS.get(getattr(func, "__name__", ""))
        if call is None or self._left <= 0:
            return func(*args, **(kwargs or {}))
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        seconds = time.perf_counter() - started
        self._left -= 1
        self._found(sys._getframe(1), call, args, kwargs or {}, result, seconds)
        return result

    def _add(self, frame: FrameType, call: str, args: Any, kwargs: dict[str, Any], result: Any, seconds: float) -> None:
        if (
            not args
            or not isinstance(args[0], Tensor)
            or not is_on_device(args[0])
            or not _waits(call, args, kwargs, result)
        ):
            return
        caller = _caller(frame)
        if caller is None:
            return
        key = caller.f_code, caller.f_lasti, call
        wait = self.waits.get(key)
        if wait is None:
            wait = self.waits[key] = Wait(call, caller.f_code, caller.f_lasti, caller.f_lineno)
        wait.calls += 1
        wait.seconds += seconds
        wait.seen_in += wait.last != self.step
        wait.last = self.step


def is_on_device(tensor: Tensor) -> bool:
    """Whether its values are somewhere that one has to wait for."""
    return tensor.is_cuda


def _waits(call: str, args: Any, kwargs: dict[str, Any], result: Any) -> bool:
    if call == "to()":
        return isinstance(result, Tensor) and not is_on_device(result) and not kwargs.get("non_blocking")
    if call == "where()":
        return len(args) + len(kwargs) == 1
    if call == "a boolean mask":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(isinstance(one, Tensor) and one.dtype == torch.bool and is_on_device(one) for one in index)
    return True


def _caller(frame: FrameType | None) -> FrameType | None:
    """The user's frame, if it is the user who calls, and no library."""
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    return frame if frame is not None and is_user_file(frame.f_code.co_filename) else None
