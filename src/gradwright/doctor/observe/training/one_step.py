"""A torch function mode for a single step: what it is told of each call, and how it gets off the stack again."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from torch.overrides import TorchFunctionMode

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.ground.torch_versions.levels import are_functorch_transforms_active
from gradwright.ground.torch_versions.modes import (
    get_function_stack_at,
    len_torch_function_stack,
    pop_torch_function_stack,
    push_on_torch_function_stack,
)

_MOST = 20_000  # operations of a step that is looked at


class OneStep(TorchFunctionMode):
    """``start`` it after a backward or a step, ``stop`` it at the next one; in between ``note`` is told of each call.

    It lies under the modes of the user's, and is taken off from wherever it lies by then. ``note`` is guarded.
    """

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__()
        self._write = guarded(self.note, on_fault)
        self._left = self._thread = 0
        self._is_on = False

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A call of torch's that gave ``result``."""

    def forget(self) -> None:
        """Whatever was written down before goes."""

    def start(self) -> bool:
        """Whether it looks on from now on: not over modes of the user's, nor where code is compiled."""
        here = threading.get_ident()
        if self._is_on:  # it could not be left yet
            self._left = _MOST if here == self._thread else 0
            return self._left > 0
        if len_torch_function_stack() or compiles() or are_functorch_transforms_active():
            return False
        self.forget()
        self._left, self._thread, self._is_on = _MOST, here, True
        push_on_torch_function_stack(self)
        return True

    def stop(self) -> None:
        """Write down no more, and leave the stack; inside of an operation (``Tensor.backward`` is one) it can only be
        left later."""
        self._left = 0
        if not self._is_on or threading.get_ident() != self._thread:
            return
        above: list[Any] = []
        size = len_torch_function_stack()
        if any(get_function_stack_at(index) is self for index in range(size)):
            while (mode := pop_torch_function_stack()) is not self:
                above.append(mode)
            self._is_on = False
            while above:
                push_on_torch_function_stack(above.pop())

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._left > 0:
            self._left -= 1
            self._write(func, args, kwargs or {}, result)
        return result


@functools.cache
def name_of(func: Any) -> str:
    """``add`` of ``Tensor.__radd__``."""
    name = str(getattr(func, "__name__", "")) or "an operation"
    return name.strip("_").removeprefix("r") if name.startswith("__") else name


def compiles() -> bool:
    """Whether anything of this process was compiled: a mode in its way would compile it anew."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and getattr(dynamo, "counters", {}).get("frames"))
