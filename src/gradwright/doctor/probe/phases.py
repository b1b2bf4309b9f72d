"""A Function's forward and backward, called directly: counted, and on the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.checking.chance import reproducible, signed
from gradwright.checking.context import run_backward, run_forward
from gradwright.doctor.probe.costs import extrapolate
from gradwright.doctor.probe.line_seconds import Line, Taken, several, time_call
from gradwright.doctor.probe.operation_seconds import time_operations
from gradwright.doctor.probe.shrink import fresh
from gradwright.doctor.probe.spending import several_on_a_line
from gradwright.doctor.probe.tracing import Instruction, Trace, distinct_bytes, trace
from gradwright.ground.tensors import tensors_in

_SECONDS = 0.7  # of one phase on the clock
_SECONDS_OF_OPERATIONS = 0.3


class OneCall:
    """A forward and its backward on copies of the arguments, to be run in this order. Both raise what they raise.

    ``used``: which outputs get a cotangent; ``None``: all.
    """

    def __init__(
        self,
        function: type[Any],
        args: tuple[Any, ...],
        wanted: tuple[bool, ...],
        used: tuple[bool, ...] | None = None,
    ) -> None:
        self._function, self._wanted, self._used = function, wanted, used
        self.given = fresh(args)
        self.outputs: tuple[Any, ...] = ()
        self.cotangents: tuple[Any, ...] = ()
        self.gradients: Any = None
        self.context: Any = None

    @property
    def saved(self) -> Any:
        return getattr(self.context, "saved_tensors", ())

    def forward(self) -> None:
        outputs, self.context = run_forward(self._function, self.given, self._wanted)
        self.outputs = outputs if isinstance(outputs, tuple) else (outputs,)

    def draw_cotangents(self) -> None:
        """Signed numbers, the same each time."""
        generator = torch.Generator().manual_seed(0)
        used = self._used if self._used is not None and len(self._used) == len(self.outputs) else None
        self.cotangents = tuple(
            signed(out.shape, generator).to(out.device, out.dtype)
            if isinstance(out, Tensor) and out.is_floating_point() and is_used
            else (torch.zeros_like(out) if isinstance(out, Tensor) and is_used else None)
            for out, is_used in zip(self.outputs, used or [True] * len(self.outputs), strict=True)
        )

    def backward(self) -> None:
        self.gradients = run_backward(self._function, self.context, self.cotangents)


def traces(
    function: type[Any], args: tuple[Any, ...], wanted: tuple[bool, ...], used: tuple[bool, ...] | None = None
) -> tuple[tuple[Trace, Trace], tuple[int, int]]:
    """What both phases dispatch, and the bytes that each has to move at least."""
    call = OneCall(function, args, wanted, used)
    forward = trace(call.forward, seconds=2.0)
    if not forward.complete:
        return (forward, Trace(complete=False)), (0, 0)
    call.draw_cotangents()
    backward = trace(call.backward, seconds=2.0)
    needed = distinct_bytes(call.given, call.outputs, call.saved)
    return (forward, backward), (needed, distinct_bytes(call.cotangents, call.saved, call.gradients))


def time_phases(
    function: type[Any],
    args: tuple[Any, ...],
    wanted: tuple[bool, ...],
    found: Sequence[Trace],
    used: tuple[bool, ...] | None = None,
) -> tuple[list[Taken], list[dict[Instruction, float]]]:
    """Seconds of both phases by line, medians of a few calls (none of a backward whose forward takes too long), and
    those of operations, for phases in which expressions share a line. ``found``: as both were traced.

    Raises what they raise.
    """
    files = found[0].files | found[1].files
    devices = {tensor.device for tensor in tensors_in(args)}
    drawn: list[tuple[Any, ...]] = []

    def draw(call: OneCall) -> None:
        """Once for all calls: of many elements it takes longer than the call."""
        if not drawn:
            call.draw_cotangents()
            drawn.append(call.cotangents)
        call.cotangents = fresh(drawn[0])

    def once(own: float) -> list[Taken]:
        call = OneCall(function, args, wanted, used)
        forward = time_call(call.forward, _SECONDS, files=files, devices=devices, own=own)
        if not forward.complete:
            return [forward, Taken(complete=False)]
        draw(call)
        return [forward, time_call(call.backward, _SECONDS, files=files, devices=devices, own=own)]

    taken = several(once)
    shared = [several_on_a_line(phase) for phase in found]
    of_operations: list[dict[Instruction, float]] = [{}, {}]
    if any(shared):
        call = OneCall(function, args, wanted, used)
        with reproducible(0):
            of_operations[0] = time_operations(call.forward, _SECONDS_OF_OPERATIONS)
            if shared[1] and call.context is not None:
                draw(call)
                of_operations[1] = time_operations(call.backward, _SECONDS_OF_OPERATIONS)
    return taken, of_operations


def grown_lines(small: tuple[int, Trace], large: tuple[int, Trace], elements: int) -> dict[Line, float]:
    """How many times as often each line runs at ``elements`` as in ``large``, by the power law through both traces,
    each of which comes with its number of elements."""
    return {
        line: extrapolate((small[0], small[1].lines.get(line, 0)), (large[0], count), elements) / count
        for line, count in large[1].lines.items()
    }
