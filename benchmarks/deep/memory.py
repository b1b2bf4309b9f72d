"""How much memory is in use: tensors alive, and what the process holds."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """``bytes``: of the storages made inside that are alive; ``peak``: the most so far."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()
        self.bytes = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in self.known and storage._cdata not in given:
                self._born(storage)
        self.peak = max(self.peak, self.bytes)
        return result

    def _born(self, storage: torch.UntypedStorage) -> None:
        self.known.add(storage._cdata)
        self.bytes += storage.nbytes()
        weakref.finalize(storage, self._died, storage._cdata, storage.nbytes())

    def _died(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.bytes -= size


def storages(values: Any) -> list[torch.UntypedStorage]:
    return [value.untyped_storage() for value in tree_leaves(values) if isinstance(value, Tensor)]


def resident_rise(work: Callable[[], object]) -> int:
    """Bytes by which the highest resident memory during ``work`` exceeds what was resident before."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is what there is now
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (the highest since the last reset)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
