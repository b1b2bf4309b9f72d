"""Where the nodes of a graph are made: one step under a torch function mode, once a fault was seen in its graph.

NOTE [one step looked at]: the graph itself knows no lines, and to record them always costs a third of a small step. So
the graph is looked at without them; only where it shows a fault, the next step of that loop runs under the mode, which
writes down, for the newest operations, where they were called and on what shapes. A node is that of the first operation
whose result is not older: nodes are numbered as they are made. The mode lies under those of the user's, and is taken
off from wherever it lies by then.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradwright.doctor.observe.guard import OnFault, guarded
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame

_KEPT = 2048  # operations, the newest
_MOST = 20_000  # operations of a step that is looked at


@dataclass(frozen=True)
class Operation:
    """One call that made a node: its name, where the user called it, and the shapes that it was given. ``gradient``:
    the call of ``autograd.grad`` without ``create_graph`` that one of its inputs was computed from."""

    number: int
    name: str
    code: CodeType
    instruction: int
    line: int
    shapes: tuple[tuple[int, ...], ...]
    gradient: Location | None = None

    @property
    def location(self) -> Location:
        return location_in(self.code, self.instruction, self.line)


class OperationPlaces(TorchFunctionMode):
    """``start`` it after a backward, ``stop`` it at the next one; then ``of(node)`` knows what made a node."""

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__()
        self._write = guarded(self._note, on_fault)
        self._operations: deque[Operation] = deque(maxlen=_KEPT)
        self._gradients: dict[int, tuple[weakref.ref[Tensor], Location]] = {}
        self._left = self._thread = 0
        self._is_on = False

    def start(self) -> bool:
        """Whether it looks on from now on: not over modes of the user's, nor where code is compiled."""
        here = threading.get_ident()
        if self._is_on:  # it could not be left yet
            self._left = _MOST if here == self._thread else 0
            return self._left > 0
        if torch._C._len_torch_function_stack() or compiles() or torch._C._are_functorch_transforms_active():
            return False
        self._operations.clear()
        self._left, self._thread, self._is_on = _MOST, here, True
        torch._C._push_on_torch_function_stack(self)
        return True

    def stop(self) -> None:
        """Write down no more, and leave the stack; inside of an operation (``Tensor.backward`` is one) it can only be
        left later."""
        self._left = 0
        self._gradients.clear()
        if not self._is_on or threading.get_ident() != self._thread:
            return
        above: list[Any] = []
        size = torch._C._len_torch_function_stack()
        if any(torch._C._get_function_stack_at(index) is self for index in range(size)):
            while (mode := torch._C._pop_torch_function_stack()) is not self:
                above.append(mode)
            self._is_on = False
            while above:
                torch._C._push_on_torch_function_stack(above.pop())

    def of(self, node: Any) -> Operation | None:
        number = node._sequence_nr()
        later = (operation for operation in self._operations if operation.number >= number)
        return min(later, key=lambda operation: operation.number, default=None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._left > 0:
            self._left -= 1
            self._write(func, args, kwargs, result)
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        first = result[0] if type(result) is tuple and result else result
        given = (*args, *(kwargs or {}).values())
        if getattr(func, "__name__", "") == "grad" and not (kwargs or {}).get("create_graph"):
            self._note_gradients(result)
            return
        gradient = self._from_gradients(func, given) if self._gradients else None
        if not isinstance(first, Tensor):
            return
        if not first.requires_grad:
            if gradient is not None:
                self._gradients[id(first)] = weakref.ref(first), gradient
            return
        node, frame = first.grad_fn if type(first) is Tensor else None, user_frame(1)
        if node is None or frame is None:
            return
        number, at = node._sequence_nr(), (frame.f_code, frame.f_lasti, frame.f_lineno)
        shapes = tuple(tuple(item.shape) for item in given if isinstance(item, Tensor))
        self._operations.append(Operation(number, _name(func), *at, shapes, gradient))

    def _note_gradients(self, results: Any) -> None:
        frame = user_frame(1)
        if frame is None or type(results) is not tuple:
            return
        at = location_in(frame.f_code, frame.f_lasti, frame.f_lineno)
        for one in results:
            if isinstance(one, Tensor) and not one.requires_grad and len(self._gradients) < _KEPT:
                self._gradients[id(one)] = weakref.ref(one), at

    def _from_gradients(self, func: Any, given: Iterable[Any]) -> Location | None:
        """Whether one of the inputs is a gradient, or made of one; what says ``detach`` means it."""
        if getattr(func, "__name__", "") in ("detach", "detach_", "__get__"):
            return None
        flat = (part for item in given for part in (item if type(item) in (tuple, list) else (item,)))
        for item in flat:
            held = self._gradients.get(id(item))
            if held is not None and held[0]() is item:
                return held[1]
        return None


@functools.cache
def _name(func: Any) -> str:
    name = str(getattr(func, "__name__", "")) or "an operation"
    return name.strip("_").removeprefix("r") if name.startswith("__") else name


def compiles() -> bool:
    """Whether anything of this process was compiled: a mode in its way would compile it anew."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and getattr(dynamo, "counters", {}).get("frames"))
