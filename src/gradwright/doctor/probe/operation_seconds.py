"""How long the operations of each expression take: what the time of a line is divided by, where several stand on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from gradwright.doctor.probe.line_seconds import Clock
from gradwright.doctor.probe.tracing import EnoughTraced, Instruction, subject_frame
from gradwright.ground.clock import now
from gradwright.ground.tensors import tensors_in, wait_for
from gradwright.ground.torch_versions.modes import TorchDispatchMode

_CHECKED_EVERY = 64  # operations


class _Timing(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self._clock, self._deadline = clock, now() + seconds
        self._queues = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch's own
        self._operations = 0
        self.taken: dict[Instruction, float] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in tracing: the wrapper that skips it imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        started = self._clock()
        result = func(*args, **(kwargs or {}))
        if self._queues:
            wait_for(tensors_in(result))
        seconds = self._clock() - started
        frame = subject_frame(sys._getframe(1))
        if frame is not None:
            key = frame.f_code, frame.f_lasti
            self.taken[key] = self.taken.get(key, 0.0) + seconds
        self._operations += 1
        if self._operations % _CHECKED_EVERY == 0 and now() > self._deadline:
            raise EnoughTraced
        return result


def time_operations(work: Callable[[], object], seconds: float, *, clock: Clock = time.perf_counter
                    ) -> dict[Instruction, float]:  # fmt: skip
    """Run ``work``; seconds by the expression that dispatched. What comes after ``seconds`` is not seen.

    Each operation takes a few microseconds more than it would: good for a comparison, not for a sum.
    Raises what ``work`` raises.
    """
    mode = _Timing(clock, seconds)
    with torch.no_grad():
        try:
            with mode:
                work()
        except EnoughTraced:
            pass
    return mode.taken
