"""What one call dispatches, and what that moves: counted, so the same each time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradwright.ground.operations import moved_bytes
from gradwright.ground.torch_versions.modes import TorchDispatchMode

MOST_OPERATIONS = 20_000
Work = tuple[int, int]  # operations, and the bytes that they read and write

_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_KERNELS = (f"{_OURS}kernels{os.sep}", f"{_OURS}losses{os.sep}", "<gradwright formula")
_DOCTOR = f"{_OURS}doctor{os.sep}"
# By these a tensor's memory is handed to somebody who works on it without torch: NumPy, Numba, ctypes.
_LEAVING = frozenset({"numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage", "_typed_storage"})


class TooManyOperationsError(Exception):
    """Counting would take too long."""


class Counting(TorchDispatchMode):
    """Counts the operations that are dispatched inside while ``counts`` is set, and the bytes that they read and write.

    Kernels of ours run as torch's operations while these are watched: then neither number is of what runs otherwise.
    What NumPy or a compiled kernel does with a tensor's memory is not seen: then the bytes are not all.
    """

    def __init__(self, most_operations: int = MOST_OPERATIONS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.counts = True
        self._most_operations, self._dispatched = most_operations, 0
        self._leaving = _Leaving(self)
        self.begin()

    def begin(self) -> None:
        """From nothing."""
        self._operations = self._moved = 0
        self._of_kernels = self.left_torch = False

    @property
    def operations(self) -> int | None:
        """None: not known."""
        return None if self._of_kernels else self._operations

    @property
    def moved(self) -> int | None:
        """Bytes. None: not known."""
        return None if self._of_kernels or self.left_torch else self._moved

    @property
    def work(self) -> Work | None:
        return None if self.operations is None or self.moved is None else (self.operations, self.moved)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the wrapper that skips it imports torch._dynamo: seconds, in every forked child

    def __enter__(self) -> Any:
        self._leaving.__enter__()  # type: ignore[no-untyped-call]  # torch's own
        return super().__enter__()  # type: ignore[no-untyped-call]  # torch's own

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # the same
        self._leaving.__exit__(*raised)  # type: ignore[no-untyped-call]  # the same

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._dispatched += 1
        if self._dispatched > self._most_operations:
            raise TooManyOperationsError
        result = func(*args, **(kwargs or {}))
        if self.counts:
            self._operations += 1
            self._moved += moved_bytes(func, args, result)
            self._of_kernels = self._of_kernels or _stands_for_a_kernel(sys._getframe(1))
        return result


class _Leaving(TorchFunctionMode):
    def __init__(self, counting: Counting) -> None:
        super().__init__()
        self._counting = counting

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._counting.counts and getattr(func, "__name__", "") in _LEAVING:
            self._counting.left_torch = True
        return func(*args, **(kwargs or {}))


def _stands_for_a_kernel(frame: FrameType | None) -> bool:
    """Whether it is a kernel's or a loss's own code that dispatched, of what is called by the user's."""
    while frame is not None and frame.f_code.co_filename.startswith(_DOCTOR):
        frame = frame.f_back  # those that watch
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_KERNELS):
            return True
        if path.startswith(_DOCTOR) or not path.startswith((_TORCH, _OURS)):
            return False
        frame = frame.f_back
    return False
