"""Does a Function talk to other processes? Tried alone, it would wait for them for ever.

NOTE [peers of a child]: a forked child holds the sockets of its parent's process groups. A collective in it would reach
the peers of the parent, which may still be at work: where what is tried talks to others unseen, it fails instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn, TypeVar

from gradwright.doctor.probe.uses import Use, uses_of
from gradwright.doctor.source.effects import ASKING

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
    """Do its methods, or the user's helpers that they call, name what sends or waits of ``torch.distributed``?

    What a name stands for decides, not how it is spelt: ``unbroadcast(...)`` is nobody's collective.
    """
    for uses in _uses_by_function(function):
        names = {name for use in uses if not _only_asks(use) for name in use.names}
        if names & _METHODS or "torch.distributed" in names or {"torch", "distributed"} <= names:
            return True
        if any(_is_distributed(use.value) for use in uses if not _only_asks(use)):
            return True
    return False


def asks_processes(function: type[Any]) -> bool:
    """Does one of them ask who this process is among others? What is then tried is one rank's: others may differ."""
    return any(_only_asks(use) for uses in _uses_by_function(function) for use in uses)


def _uses_by_function(function: type[Any]) -> Iterator[list[Use]]:
    seen: set[CodeType] = set()
    for name in ("forward", "setup_context", "backward", "vjp"):
        if hasattr(function, name):
            yield from _followed(getattr(function, name), seen, _DEPTH)


def _followed(function: Any, seen: set[CodeType], depth: int) -> Iterator[list[Use]]:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or (function.__module__ or "").partition(".")[0] == "torch":
        return
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    uses = list(uses_of(function))
    yield uses
    for use in uses if depth > 0 else ():
        yield from _followed(use.value, seen, depth - 1)


def _only_asks(use: Use) -> bool:
    """``dist.get_rank()`` and its kin (``ASKING``): in a forked child they answer as in its parent."""
    value = use.value
    for name in use.attributes:
        if isinstance(value, ModuleType):
            value = vars(value).get(name)
    return isinstance(value, FunctionType) and value.__name__ in ASKING and _is_distributed(value)


def _is_distributed(value: Any) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(home, str) and (home + ".").startswith(_HOMES)
