"""Does a Function talk to other processes? Tried alone, it would wait for them for ever.

NOTE [peers of a child]: a forked child holds the sockets of its parent's process groups. A collective in it would reach
the peers of the parent, which may still be at work: where what is tried talks to others unseen, it fails instead.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn, TypeVar

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_DEPTH = 3  # helpers of helpers
_HOMES = ("torch.distributed.", "mpi4py.", "horovod.")
# Methods of process groups, whatever they are called on.
_METHODS = frozenset(
    f"{verb}{suffix}"
    for verb in ("allreduce", "all_reduce", "allgather", "all_gather", "reduce_scatter", "alltoall", "all_to_all")
    for suffix in ("", "_into_tensor", "_tensor", "_single", "_coalesced")
)


T = TypeVar("T")
# Of torch's process groups: what sends or waits.
_SENDING = (
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "alltoall_base", "barrier",
    "broadcast", "gather", "monitored_barrier", "recv", "recv_anysource", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "scatter", "send",
    "_allgather_base", "_reduce_scatter_base",
)  # fmt: skip


def has_peers() -> bool:
    """Whether this process shares a process group with others."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    return int(distributed.get_world_size()) > 1


def without_peers(work: Callable[[], T]) -> T:
    """In a forked child: see NOTE [peers of a child]. Raises what ``work`` does; RuntimeError at a collective."""
    if has_peers():
        group = sys.modules["torch.distributed"].ProcessGroup
        for name in _SENDING:
            if hasattr(group, name):
                setattr(group, name, _refused)
    return work()


def _refused(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("it talks to other processes, which can't be tried alone")


def talks_to_processes(function: type[Any]) -> bool:
    """Do its methods, or the user's helpers that they call, name something of ``torch.distributed``?

    What a name stands for decides, not how it is spelt: ``unbroadcast(...)`` is nobody's collective.
    """
    seen: set[CodeType] = set()
    return any(
        _talks(getattr(function, name), seen, _DEPTH)
        for name in ("forward", "setup_context", "backward", "vjp")
        if hasattr(function, name)
    )


def _talks(function: Any, seen: set[CodeType], depth: int) -> bool:
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or (function.__module__ or "").partition(".")[0] == "torch":
        return False
    if function.__code__ in seen:
        return False
    seen.add(function.__code__)
    used = []
    for code in _codes(function.__code__):
        names = set(code.co_names)
        if names & _METHODS or "torch.distributed" in names or {"torch", "distributed"} <= names:
            return True
        used += [function.__globals__.get(step.argval) for step in dis.get_instructions(code) if step.opname in _LOADS]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is still empty
            used.append(cell.cell_contents)
    return any(_is_distributed(value) or (depth > 0 and _talks(value, seen, depth - 1)) for value in used)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_distributed(value: Any) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(home, str) and (home + ".").startswith(_HOMES)
