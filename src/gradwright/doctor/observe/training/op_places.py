"""Where the nodes of a graph are made: one step under a torch function mode, once a fault was seen in its graph.

NOTE [one step looked at]: the graph itself knows no lines, and to record them always costs a third of a small step. So
the graph is looked at without them; only where it shows a fault, the next step of that loop runs under the mode, which
writes down, for the newest operations, where they were called and on what shapes. A node is that of the first operation
whose result is not older: nodes are numbered as they are made. Our own losses are no operations: their node is placed
by what they call beside it. The mode lies under those of the user's, and is taken
off from wherever it lies by then.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torch import Tensor

from gradwright.doctor.observe.guard import OnFault
from gradwright.doctor.observe.training.library_losses import loss_around
from gradwright.doctor.observe.training.one_step import OneStep, name_of
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.places import location_in, user_frame
from gradwright.ground.torch_versions.engine import next_sequence_number, sequence_number

_KEPT = 2048  # operations, the newest


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


class OperationPlaces(OneStep):
    """``start`` it after a backward, ``stop`` it at the next one; then ``of(node)`` knows what made a node."""

    def __init__(self, on_fault: OnFault) -> None:
        super().__init__(on_fault)
        self._operations: deque[Operation] = deque(maxlen=_KEPT)
        self._gradients: dict[int, tuple[weakref.ref[Tensor], Location]] = {}

    def forget(self) -> None:
        self._operations.clear()

    def stop(self) -> None:
        self._gradients.clear()
        super().stop()

    def of(self, node: Any) -> Operation | None:
        number = sequence_number(node)
        later = (operation for operation in self._operations if operation.number >= number)
        return min(later, key=lambda operation: operation.number, default=None)

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        first = result[0] if type(result) is tuple and result else result
        given = (*args, *kwargs.values())
        if getattr(func, "__name__", "") == "grad" and not kwargs.get("create_graph"):
            self._note_gradients(result)
            return
        gradient = self._from_gradients(func, given) if self._gradients else None
        if not isinstance(first, Tensor) or not first.requires_grad:
            self._note_loss()
        if not isinstance(first, Tensor):
            return
        if not first.requires_grad:
            if gradient is not None:
                self._gradients[id(first)] = weakref.ref(first), gradient
            return
        node, frame = first.grad_fn if type(first) is Tensor else None, user_frame(1)
        if node is None or frame is None:
            return
        number, at = sequence_number(node), (frame.f_code, frame.f_lasti, frame.f_lineno)
        shapes = tuple(tuple(item.shape) for item in given if isinstance(item, Tensor))
        self._operations.append(Operation(number, name_of(func), *at, shapes, gradient))

    def _note_loss(self) -> None:
        """A call without a graph, inside one of ``gw.losses``: the newest node may be the loss's."""
        name, frame = loss_around(sys._getframe(2)), user_frame(2)
        if name and frame is not None:
            newest, at = next_sequence_number() - 1, (frame.f_code, frame.f_lasti, frame.f_lineno)
            self._operations.append(Operation(newest, name, *at, ()))

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
