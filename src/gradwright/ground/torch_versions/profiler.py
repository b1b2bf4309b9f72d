"""The profiler below ``torch.profiler``: allocations of one thread, and whether any profiler is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradwright.ground.torch_versions.capability import Capability, look_up


def _probe() -> str | None:
    changes = list_allocations(lambda: torch.zeros(1000, dtype=torch.float32, device="cpu") + 1)
    return None if 4000 in changes and sum(changes) == 4000 else f"it saw {changes}"


#: Allocations on the CPU. torch is about to give up this profiler (pytorch #192543).
ALLOCATIONS = Capability("torch._C._autograd._enable_profiler_legacy", "measuring memory on the CPU", _probe)

_enable: Callable[..., None] = look_up("torch._C._autograd._enable_profiler_legacy", ALLOCATIONS)
_disable: Callable[[], Any] = look_up("torch._C._autograd._disable_profiler_legacy", ALLOCATIONS)
_Config: Any = look_up("torch._C._profiler.ProfilerConfig", ALLOCATIONS)
_State: Any = look_up("torch._C._profiler.ProfilerState", ALLOCATIONS)
_Extras: Any = look_up("torch._C._profiler._ExperimentalConfig", ALLOCATIONS)


def list_allocations(work: Callable[[], object]) -> list[int]:
    """Every allocation (bytes) and release (minus bytes) of this thread during ``work``, in their order.

    By the profiler that torch had before Kineto: it keeps its events to its thread, and writes nothing to stderr.
    Raises: what ``work`` raises; UnsupportedTorch.
    """
    _enable(_Config(_State.CPU, False, True, False, False, False, _Extras()))
    try:
        made = work()
    finally:
        threads = _disable()
    del made
    return [event.cpu_memory_usage() for events in threads for event in events if str(event.kind()) == "memory_alloc"]


def _probe_type() -> str | None:
    return None if isinstance(_profiler_type().name, str) else f"its type has no name: {_profiler_type()}"


#: Whether a profiler of the user's is on.
PROFILERS = Capability("torch._C._autograd._profiler_type", "seeing a profiler that was left on", _probe_type)
_profiler_type: Callable[[], Any] = look_up("torch._C._autograd._profiler_type", PROFILERS)


def keeps_events() -> bool:
    """Whether a profiler is on, other than one that hands marks to a tool outside (NVTX, ITT)."""
    return str(_profiler_type().name) in ("LEGACY", "KINETO")


#: What ``torch.profiler.profile`` and autograd's own profiler both begin with: (class, name of its method).
START_OF_PROFILERS = (torch.autograd.profiler.profile, "_start_trace")
