"""How fast the device copies: what every other figure is held against."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from on_device import seconds

from on_gpu.figure import Figure, Machine

LARGE, SMALL = 2**32, 2**25  # bytes; the smaller one in a dry run
TIMES = 9
WARM_UP_SECONDS = 0.1


def time_copies(device: torch.device, size: int) -> list[float]:
    """Seconds of each of several copies of ``size`` bytes, random ones, once the device's clocks are up."""
    source = torch.rand(size // 4, device=device)
    target = torch.empty_like(source)

    def copy() -> torch.Tensor:
        return target.copy_(source)

    until = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < until:
        seconds(copy, device)
    return [seconds(copy, device) for _ in range(TIMES)]


def measure_copy_speed(device: torch.device, *, is_small: bool) -> float:
    """Bytes read plus bytes written a second: the median of several large copies. Cost: 0.2 s."""
    size = SMALL if is_small else LARGE
    return 2 * size / statistics.median(time_copies(device, size))


def _measure(size: int, machine: Machine) -> dict[str, Any]:
    took = time_copies(machine.device, size)
    middle = statistics.median(took)
    return {
        "bytes_per_second": float(f"{2 * size / middle:.4g}"),
        "read_and_written_bytes": 2 * size,
        "copy_us": round(1e6 * middle, 1),
        "slowest_by_fastest": round(max(took) / min(took), 3),
        "notes": "",
    }


def list_figures(*, is_small: bool) -> list[Figure]:
    size = SMALL if is_small else LARGE
    row = f"{size // 2**20:,} MiB, float32"
    return [Figure("what_does_the_device_copy", "", row, lambda machine: _measure(size, machine))]
