"""What outlives a call: nodes of the graph and memory that are still alive when everything it returned is gone."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from gradwright.checking.enginecall import (
    CustomNode,
    call,
    custom_nodes,
    draw_cotangents,
    hand_out,
    is_behind,
    receiving,
)
from gradwright.checking.trial import HALF, quiet, tensors_in
from gradwright.ground.memory import pause_collector
from gradwright.ground.torch_versions.modes import TorchDispatchMode
from gradwright.ground.torch_versions.tensors import memory_id

# The first call may fill a cache of constants, the last may be remembered as the last: neither grows.
CALLS = 4


@dataclass(frozen=True)
class Retained:
    """What every call leaves behind. ``function``: whose node outlives its outputs ("" if none does); ``parked``: the
    attributes of its ``ctx`` that hold it; ``bytes``: memory that one call leaves; ``collectable``: the garbage
    collector frees it, when it happens to run."""

    function: str
    parked: tuple[str, ...]
    bytes: int
    collectable: bool


def retained(
    subject: Any,
    args: Sequence[Any],
    wanted: Sequence[int],
    *,
    backward: bool,
    seed: int = 0,
    used: Sequence[bool] | None = None,
) -> Retained | None:
    """What each of several calls leaves alive; ``None`` if nothing, as it should be.

    ``backward``: whether it is run before the outputs are dropped. Cost: ``CALLS`` forwards (and backwards), and
    garbage collection where something is alive. Raises: what the subject raises.
    """
    with pause_collector():
        traces = [_trace(subject, args, wanted, backward, seed, used) for _ in range(CALLS)][1:-1]
        if not all(trace.alive for trace in traces):
            return None
        size = min(trace.living_bytes() for trace in traces)
        function, parked = _parked(traces)
    gc.collect()
    collectable = not all(trace.alive for trace in traces)
    if not collectable:
        size = min(trace.living_bytes() for trace in traces)
    return Retained(function, parked, size, collectable)


@dataclass(frozen=True)
class _Trace:
    """Weak references to what one call made: nodes with their Functions, storages with their sizes."""

    nodes: list[tuple[weakref.ref[Any], type]]
    storages: list[tuple[StorageWeakRef, int]]

    @property
    def alive(self) -> bool:
        return bool(self.living_nodes()) or self.living_bytes() > 0

    def living_nodes(self) -> list[CustomNode]:
        found = ((reference(), function) for reference, function in self.nodes)
        return [CustomNode(node, function) for node, function in found if node is not None]

    def living_bytes(self) -> int:
        return sum(size for storage, size in self.storages if not _expired(storage))


def _trace(
    subject: Any, args: Sequence[Any], wanted: Sequence[int], backward: bool, seed: int, used: Sequence[bool] | None
) -> _Trace:
    memory = _Memory()
    with quiet(HALF, seed), torch.enable_grad():
        handed = hand_out(args, wanted)
        memory.note([*handed.args, *handed.targets.values()])
        with memory:
            outputs = receiving(subject, call(subject, handed.args), used)
            nodes = [(weakref.ref(item.node), item.function) for item in custom_nodes(outputs)]
            if backward:
                cotangents = draw_cotangents(outputs, seed)
                memory.note(cotangents)
                torch.autograd.grad(outputs, list(handed.targets.values()), cotangents, allow_unused=True)
    return _Trace(nodes, list(memory.storages.values()))


def _expired(storage: StorageWeakRef) -> bool:
    return bool(storage.expired())  # type: ignore[no-untyped-call]  # torch has no types here


class _Memory(TorchDispatchMode):
    """Notes, weakly, every storage that an operation makes; not those that it was handed and returns a view of."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.foreign: set[int] = set()

    def note(self, value: Any) -> None:
        for storage in _storages(value):
            if memory_id(storage) not in self.foreign:
                reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch has no types here
                self.storages[memory_id(storage)] = (reference, storage.nbytes())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handed = {memory_id(storage) for storage in _storages([args, kwargs])}
        self.foreign |= handed - self.storages.keys()
        result = func(*args, **(kwargs or {}))
        self.note(result)
        return result


def _storages(value: Any) -> list[torch.UntypedStorage]:
    return [
        tensor.untyped_storage()
        for tensor in tensors_in(value)
        if type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    ]


def _parked(traces: Sequence[_Trace]) -> tuple[str, tuple[str, ...]]:
    """A Function whose nodes all calls left, and the attributes of ``ctx`` by which such a node keeps itself alive:
    tensors whose graph it is in. Leaves no reference behind."""
    living = [trace.living_nodes() for trace in traces]
    if not all(living):
        return "", ()
    for item in living[0]:
        held = [
            name
            for name, value in vars(item.node).items()
            if any(is_behind(item.node, tensor) for tensor in tensors_in(value))
        ]
        if held:
            return item.name, tuple(held)
    return living[0][0].name, ()
