"""How much memory a piece of work takes: the most that is allocated at a time, above what was when it began."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.profiler import list_allocations


@dataclass(frozen=True)
class Taken:
    """Bytes above the start.  ``peak_bytes``: the most at a time.  ``kept_bytes``: at the end, result included."""

    peak_bytes: int
    kept_bytes: int


def memory_of(work: Callable[[], object], device: torch.device) -> Taken:
    """Run ``work`` and measure what it allocates on ``device``; what it returns is let go.

    CPU: by the allocation events of torch's profiler, so temporaries inside of operations count. It runs in a thread of
    its own, so that a profiler of the caller's stays as it is. The garbage collector waits meanwhile: what an
    earlier measurement left as garbage would be released on the account of this one.  CUDA: by the allocator's
    statistics; its peak statistics start anew.
    Raises: what ``work`` raises; UsageError for other devices.  Cost: a millisecond, and a microsecond an operation.

    >>> memory_of(lambda: torch.zeros(1000) + torch.zeros(1000), torch.device("cpu"))
    Taken(peak_bytes=12000, kept_bytes=4000)
    """
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        made = work()
        peak, kept = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
        del made
        return Taken(peak - before, kept - before)
    if device.type != "cpu":
        raise UsageError(f"memory of {device.type} is not measured: max_bytes is for the CPU and CUDA")
    changes: list[int] = []
    errors: list[BaseException] = []
    autocast, recorded = torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()
    dtype = torch.get_autocast_dtype("cpu")

    def watched() -> None:  # in the caller's modes, which a thread does not take over
        try:
            with torch.autocast("cpu", dtype, enabled=autocast), torch.set_grad_enabled(recorded):
                changes.extend(list_allocations(work))
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=watched, name="gradwright-memory")
    with pause_collector():
        thread.start()
        thread.join()
    if errors:
        raise errors[0]
    alive = peak = 0
    for change in changes:
        alive += change
        peak = max(peak, alive)
    return Taken(peak, alive)


@contextmanager
def pause_collector() -> Iterator[None]:
    """What is found inside must not depend on when the garbage collector happens to run.

    >>> with pause_collector():
    ...     gc.isenabled()
    False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
