"""Operations and bytes by the expression that dispatched them, and how often each line ran."""

from __future__ import annotations

import functools
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from gradwright.doctor.source.places import is_library_file, is_user_file
from gradwright.ground.operations import only_views, touched
from gradwright.ground.tensors import tensor_bytes, tensors_in
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.operators import packet_of

Instruction = tuple[CodeType, int]

_SHORT = 64  # elements: far below what an operation costs to dispatch


class EnoughTraced(BaseException):
    """The tracing's own time is over; what was counted so far stands."""


@dataclass
class Counts:
    """Of one instruction. ``views``: operations that only hand out a view.

    Of the others, ``scalar_operations`` have a single element to read and write, ``short_operations`` a few;
    ``single_results`` give a single element, whatever they read.
    """

    operations: int = 0
    views: int = 0
    scalar_operations: int = 0
    short_operations: int = 0
    single_results: int = 0
    bytes: int = 0
    line: int = 0


@dataclass
class Trace:
    """What one traced call did. ``flops``: of dense products and convolutions. ``complete`` is False when it was cut
    off by its time limit."""

    instructions: dict[Instruction, Counts] = field(default_factory=dict)
    lines: Counter[tuple[CodeType, int]] = field(default_factory=Counter)
    flops: int = 0
    complete: bool = True

    @property
    def files(self) -> frozenset[str]:
        """Those from which operations were dispatched."""
        return frozenset(code.co_filename for code, _ in self.instructions)

    @property
    def operations(self) -> int:
        return sum(counts.operations for counts in self.instructions.values())

    @property
    def bytes(self) -> int:
        return sum(counts.bytes for counts in self.instructions.values())


def flops_of(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Of one dense product or convolution, by torch's own table; 0 of any other operation."""
    formula = flop_registry.get(packet_of(func))
    if formula is None or any(tensor.layout is not torch.strided for tensor in tensors_in(args, 2)):
        return 0
    return int(formula(*args, **(kwargs or {}), out_val=result))


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    def __init__(self, trace: Trace, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self._trace, self._deadline = trace, deadline

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the wrapper that skips it imports torch._dynamo: three seconds, in every forked child

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        frame = subject_frame(sys._getframe(1))
        if frame is None:
            return result
        self._trace.flops += flops_of(func, args, kwargs, result)
        key = (frame.f_code, frame.f_lasti)
        counts = self._trace.instructions.get(key)
        if counts is None:
            counts = self._trace.instructions[key] = Counts(line=frame.f_lineno)
        counts.operations += 1
        produced = list(tensors_in(result))
        if only_views(func):
            counts.views += 1
        else:
            tensors = touched(args, produced)
            most = max((tensor.numel() for tensor in tensors), default=0)
            counts.scalar_operations += most <= 1
            counts.short_operations += most <= _SHORT
            counts.single_results += bool(produced) and all(tensor.numel() == 1 for tensor in produced)
            counts.bytes += sum(map(tensor_bytes, tensors))
        if counts.operations % 64 == 0 and time.thread_time() > self._deadline:
            raise EnoughTraced
        return result


def subject_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's or of a library's, from this one outwards: what dispatched an operation."""
    while frame is not None and not is_subject(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.cache
def is_subject(path: str) -> bool:
    """Whether the code of a file is looked at."""
    return is_own(path) or is_library_file(path)


@functools.cache
def is_own(path: str) -> bool:
    """Whether a file is the user's, or a loop of the user's that is replayed."""
    return path.startswith("<gradwright loop") or is_user_file(path)


def trace(work: Callable[[], object], seconds: float) -> Trace:
    """Run ``work`` and count, for ``seconds`` of CPU time: on a busy machine as much as on an idle one.

    Cost: a Python call per operation (about 5x an operation-bound call) and per line.
    """
    found = Trace()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.lines[frame.f_code, frame.f_lineno] += 1
        return local

    def anywhere(frame: FrameType, event: str, _: Any) -> Any:
        return local if is_subject(frame.f_code.co_filename) else None

    before = sys.gettrace()
    with torch.no_grad():
        try:
            sys.settrace(anywhere)
            with _Counting(found, time.thread_time() + seconds):
                work()
        except EnoughTraced:
            found.complete = False
        finally:
            sys.settrace(before)
    return found


def distinct_bytes(*trees: Any) -> int:
    """Bytes of the distinct storages among the tensors: what has to be read or written at least once."""
    seen: dict[int, int] = {}
    sparse = 0
    for tensor in tensors_in(trees, 6):
        if tensor.layout is torch.strided:
            place = tensor.untyped_storage().data_ptr()
            seen[place] = max(tensor_bytes(tensor), seen.get(place, 0))
        elif tensor.layout is torch.sparse_coo:
            values = tensor._values()
            sparse += tensor_bytes(values) + tensor._indices().numel() * 8
    return sum(seen.values()) + sparse
