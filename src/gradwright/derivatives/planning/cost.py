"""What each method is going to cost: a small model with measured constants.

Seconds of R directions in chunks of c:

    ceil(R / c) steps overhead  +  R (flops / flop rate + bytes / byte rate) spill(c)  +  result bytes / byte rate

where `overhead` is what a node costs however small its tensors are, and `spill` what a direction costs more when the
widest value of a chunk no longer stays in the cache. Where a graph is made, what counts is the forward of a penalty and
its backward together: the caller is going to ask for both.

Constants of the CPU: fitted on 2026-11-21 to B in {16, 128, 1024}, D in {2, 32, 256}, K in {2, 16, 64}, with and
without create_graph, MLP tail D->128->128->K, float32, torch 2.13, one thread of an AMD EPYC. Of another device: those
that `make gpu` measured on one of the same name (``ground.devices``). Where none was: ``UNMEASURED``, from data sheets
and torch's launch times, as launches dominate; ``plan`` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import torch

from gradwright.derivatives.planning.work import Work
from gradwright.ground.devices import find_constants


@dataclass(frozen=True)
class Machine:
    """Rates of a kind of device, and what a node costs there whatever its size.

    ``single``, ``vmapped``, ``pushed``: seconds a node, in a backward, in one under vmap, in a push of tangents.
    ``start``: seconds of a double vjp before its first direction, per node.
    ``cache``: bytes of a chunk's widest value that are quick to come back to.  ``spill``: more time per doubling of it.
    """

    flop_rate: float
    byte_rate: float
    single: float
    vmapped: float
    pushed: float
    start: float
    cache: float
    spill: float


#: How much more the overhead, and the work, of a direction are with its graph, a penalty and that one's backward.
GRAPH_OVERHEAD, GRAPH_WORK = 2.3, 3.3

CPU = Machine(9e10, 2e10, 17e-6, 42e-6, 30e-6, 30e-6, 1 << 20, 0.15)
UNMEASURED = Machine(3e13, 2e12, 25e-6, 60e-6, 40e-6, 50e-6, 256 << 20, 0.02)


def machine_of(device: torch.device, dtype: torch.dtype) -> Machine:
    """The constants for this device, this dtype and the threads that torch may use now."""
    wide = dtype.itemsize >= 8
    if device.type == "cpu":
        return _scale(CPU, torch.get_num_threads() ** 0.8, wide)
    found = find_constants(device)
    return _scale(UNMEASURED if found is None else Machine(**found.rates), 1.0, wide)


@cache
def _scale(machine: Machine, threads: float, wide: bool) -> Machine:
    """A product in float64 takes twice the time of one in float32."""
    return replace(machine, flop_rate=machine.flop_rate * threads * (0.5 if wide else 1.0))


def is_measured(device: torch.device) -> bool:
    """Whether the constants for this kind of device were measured on one, and not taken from data sheets."""
    return device.type == "cpu" or find_constants(device) is not None


def chunk_of(method: str, work: Work, machine: Machine, count: int) -> int:
    """How many directions at a time keep the widest value in the cache."""
    if method == "sum trick" or count <= 1:
        return 1
    return min(count, max(1, round(machine.cache / max(work.widest, 1.0))))


def seconds(
    method: str, count: int, chunk: int, work: Work, result_bytes: float, machine: Machine, create_graph: bool
) -> float:
    """Predicted time of ``count`` directions, the backward of a penalty included where a graph is made."""
    one, start = direction_seconds(work, machine), 0.0
    if method == "sum trick":
        node = machine.single
    elif method == "pushed":
        node = machine.pushed
    elif method == "batched":
        node = machine.vmapped
    else:  # double vjp: a backward with a graph, then through that one
        start = work.steps * machine.start + one
        node = machine.single if chunk == 1 else machine.vmapped
    overhead = -(-count // chunk) * work.steps * node + start
    spilt = math.log2(chunk * work.widest / machine.cache) if chunk * work.widest > machine.cache and chunk > 1 else 0.0
    moved = count * one * (1 + machine.spill * spilt) + result_bytes / machine.byte_rate
    return overhead * GRAPH_OVERHEAD + moved * GRAPH_WORK if create_graph else overhead + moved


def direction_seconds(work: Work, machine: Machine) -> float:
    """One direction through all nodes, by flops and bytes."""
    return work.flops / machine.flop_rate + work.bytes / machine.byte_rate


def peak_bytes(count: int, chunk: int, work: Work, result_bytes: float, create_graph: bool) -> float:
    """Predicted peak: the result, and a chunk's widest value with its neighbours; every value where a graph is made."""
    if create_graph:
        return 2 * result_bytes + 3 * count * work.saved
    return result_bytes + 3 * chunk * work.widest
