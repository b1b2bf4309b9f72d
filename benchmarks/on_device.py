"""What benchmarks with a ``--device`` share: options, the clock, the peak of memory, the machine's description."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from recording import describe_machine

from gradwright.ground.memory import memory_of


@dataclass(frozen=True)
class Setting:
    """How a benchmark is run.  ``rounds``: how often each way takes its turn.  ``save``: keep the figures as JSON."""

    device: torch.device
    rounds: int
    quick: bool
    save: bool


def read_setting(page: str | None, *, rounds: int, quick: int, told: str = "") -> Setting:
    """The options of a benchmark's command line.  One thread on the CPU; float32 products are float32 on CUDA.

    ``page``: the script's docstring.  ``quick``: the rounds of ``--quick``; ``told``: what else that leaves out.
    """
    parser = argparse.ArgumentParser(description=page, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true", help=f"{quick} rounds{told}")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    set_arithmetic(device)
    return Setting(device, quick if options.quick else options.rounds, options.quick, not options.no_save)


def set_arithmetic(device: torch.device) -> None:
    """One thread on the CPU; float32 products are float32 on CUDA."""
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def now(device: torch.device) -> float:
    """Seconds.  On the CPU those that this process computed, so that the turns of others don't count."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Of one call; what it made is let go untimed."""
    start = now(device)
    kept = call()
    took = now(device) - start
    del kept
    return took


def peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    """The most bytes that tensors held at once during the call, above what they held before it."""
    return memory_of(call, device).peak_bytes


def machine_of(device: torch.device) -> dict[str, Any]:
    """``describe_machine`` with this device."""
    machine = describe_machine() | {"device": device.type}
    if device.type == "cuda":
        machine |= {"cpu": torch.cuda.get_device_name(device), "allocator": "CUDA caching allocator"}
    return machine
