"""The most bytes that tensors held at once during a call, above what they held before it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradwright.ground.memory import memory_of


def peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    """On CUDA from the allocator's statistics, on the CPU from the profiler's allocation events, in their order."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return memory_of(call, device).peak_bytes
