"""The profiler below ``torch.profiler``: allocations of one thread, and whether any profiler is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradwright.ground.torch_versions.capability import Capability, look_up, resolve


def _probe() -> str | None:
    changes = list_allocations(lambda: torch.zeros(1000, dtype=torch.float32, device="cpu") + 1)
    return None if 4000 in changes and sum(changes) == 4000 else f"it saw {changes}"


#: Allocations on the CPU.
ALLOCATIONS = Capability("torch.profiler's events of memory", "measuring memory on the CPU", _probe)


def list_allocations(work: Callable[[], object]) -> list[int]:
    """Every allocation (bytes) and release (minus bytes) of this thread during ``work``, in their order.

    By the profiler that torch had before Kineto: it keeps its events to its thread, and writes nothing to stderr. Torch
    is about to give it up (pytorch #192543); where it is gone, by Kineto.
    Raises: what ``work`` raises.
    """
    return _list_by_kineto(work) if _before_kineto is None else _list_before_kineto(work, *_before_kineto)


def _find_names_before_kineto() -> tuple[Any, ...] | None:
    names = ("_autograd._enable_profiler_legacy", "_autograd._disable_profiler_legacy")
    kinds = ("_profiler.ProfilerConfig", "_profiler.ProfilerState", "_profiler._ExperimentalConfig")
    try:
        return tuple(resolve(f"torch._C.{name}") for name in (*names, *kinds))
    except AttributeError:
        return None


_before_kineto = _find_names_before_kineto()


def _list_before_kineto(
    work: Callable[[], object], enable: Any, disable: Any, config: Any, state: Any, extras: Any
) -> list[int]:
    enable(config(state.CPU, False, True, False, False, False, extras()))
    try:
        made = work()
    finally:
        threads = disable()
    del made
    return [event.cpu_memory_usage() for events in threads for event in events if str(event.kind()) == "memory_alloc"]


def _list_by_kineto(work: Callable[[], object]) -> list[int]:
    kinds = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds, profile_memory=True) as profile:
        made = work()
    del made
    results: Any = profile.profiler.kineto_results
    return [event.nbytes() for event in results.events() if event.name() == "[memory]"]


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
