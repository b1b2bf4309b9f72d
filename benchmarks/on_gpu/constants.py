"""What the planner of batch Jacobians has to know of a device: rates, what a node costs, how many rows go together.

`make gpu-read` writes them into ``gradwright/ground/devices.json``; their meaning stands in ``planning/cost.py``. What
a node costs is measured as the CPU's constants were fitted: on the tail of an MLP, so small that its arithmetic is
nothing, with all that a call costs beside its nodes. On a CPU of the kind that they were fitted on, 0.6 to 0.8 of each.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from on_device import now
from torch import nn

from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.methods.batched import BATCHED
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.method import Method, every_direction
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.planning.cost import CPU
from on_gpu.figure import Figure, Machine

QUESTION = "what_does_a_launch_cost"
ROWS_TOGETHER = (8, 16, 32, 64, 128)
ENOUGH = 1.1  # of the best time of a row: fewer rows at a time hold less


def measure(machine: Machine) -> dict[str, Any]:
    cache = _ask_cache_bytes(machine)
    single = _time_node(SUM_TRICK, 1, machine)
    return {
        "flop_rate": _cut_digits(_measure_flop_rate(machine)),
        "byte_rate": _cut_digits(machine.copy_bytes_per_second),
        "single": _cut_digits(single),
        "vmapped": _cut_digits(_time_node(BATCHED, 8, machine)),
        "pushed": _cut_digits(_time_node(PUSHED, 8, machine)),
        "start": _cut_digits(max(_time_node(DOUBLE_VJP, 1, machine) - single, 0.1 * single)),
        "cache": cache,
        "spill": round(_measure_spill(cache, machine), 3),
        "rows_together": _choose_rows_together(machine),
    }


def _cut_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _time_call(call: Callable[[], object], machine: Machine, count: int = 1) -> float:
    """Of one of ``count`` calls in a row, the median over the rounds; the first round isn't counted."""
    taken = []
    for _ in range(machine.rounds + 1):
        start = now(machine.device)
        for _ in range(count):
            call()
        taken.append((now(machine.device) - start) / count)
    return statistics.median(taken[1:])


def _measure_flop_rate(machine: Machine) -> float:
    side = 512 if machine.is_small else 8192
    left, right = (torch.randn(side, side, device=machine.device) for _ in range(2))
    return 2 * side**3 / _time_call(lambda: left @ right, machine, 3)


def _make_tail(samples: int, rows: int, machine: Machine) -> Request:
    """y [samples, rows] of z [samples, 32], by the tail of an MLP."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, rows))
    z = torch.randn(samples, 32, device=machine.device, requires_grad=True)
    return read_request(net.to(machine.device)(z), z, 0, create_graph=False)


def _time_node(method: Method, directions: int, machine: Machine) -> float:
    """What one node costs beside its arithmetic, where ``directions`` go through at once."""
    request = _make_tail(1, 16, machine)
    carried = every_direction(request, method.side)[:directions]
    took = _time_call(partial(method.run, request, carried, directions), machine, 5)
    return took / len(request.way.steps)


def _ask_cache_bytes(machine: Machine) -> float:
    if machine.device.type != "cuda":
        return CPU.cache
    return float(torch.cuda.get_device_properties(machine.device).L2_cache_size)


def _measure_spill(cache: float, machine: Machine) -> float:
    """How much longer a byte takes for each doubling beyond the cache: from a quarter of it to four times as much."""

    def time_byte(size: float) -> float:
        values = torch.randn(int(size) // 8, device=machine.device)  # read, and written elsewhere
        into = torch.empty_like(values)
        return _time_call(lambda: torch.tanh(values, out=into), machine, 20) / size

    return max(0.0, time_byte(4 * cache) / time_byte(cache / 4) - 1) / 2


def _choose_rows_together(machine: Machine) -> int:
    """The fewest rows at a time that are about as quick as any."""
    rows, samples = (16, 64) if machine.is_small else (128, 1024)
    request = _make_tail(samples, rows, machine)
    directions = every_direction(request, "rows")
    took = {
        chunk: _time_call(partial(BATCHED.run, request, directions, chunk), machine)
        for chunk in ROWS_TOGETHER
        if chunk <= rows
    }
    best = min(took.values())
    return min(chunk for chunk, seconds in took.items() if seconds <= ENOUGH * best)


def list_figures() -> list[Figure]:
    return [Figure(QUESTION, "", "batch Jacobians, float32", measure)]
