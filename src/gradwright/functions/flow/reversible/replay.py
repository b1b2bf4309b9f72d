"""Calling a network a second time as it was called the first time: what it reads besides its input.

A network reads the tensors that it holds (parameters and buffers), its mode (train or eval), the random generators and
the autocast state. The forward notes them; the backward puts them back for the length of one call.

NOTE [parameters are replaced]: in the second call other tensors on the same memory may stand in the parameters' places.
A hook on a parameter (``p.register_hook``, a gradient clipped) would otherwise run twice: inside the backward, and when
the gradient arrives. It also makes the second call read what the first one read where the module's tensors were
exchanged in between, as ``torch.func.functional_call`` does. Where nothing calls for it, nothing is replaced.

NOTE [running statistics]: a batch norm's kernel writes into its running statistics without a word (``_version`` stays),
so vectors of floats that a module in train mode holds as buffers are taken to change in every call. Other buffers
tell: by their version, or because another tensor stands in their place.

NOTE [one at a time]: while tensors of a module stand replaced, no other thread may call it. Calls of all networks
therefore take one lock; a lock that can't be had for a minute is an error, not a deadlock. Code of another thread that
looks into the module itself takes no lock: there, hooks on parameters and threads don't go together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.modules import own_buffers, own_parameters

Table = dict[str, Any]
Held = tuple[Table, str, Tensor]
"""Where a module keeps a tensor, its table of parameters or of buffers and the name there, and the tensor."""

_LOCK = threading.RLock()
PATIENCE_SECONDS = 60.0


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock. See NOTE [one at a time]. Raises: UsageError, if another thread keeps it for a minute."""
    if not _LOCK.acquire(timeout=PATIENCE_SECONDS):
        raise UsageError(
            f"a reversible network waited {PATIENCE_SECONDS:g} s for another thread that is inside f or g.\n"
            "  why    the backward lends f and g other tensors for a moment; one thread at a time may call them\n"
            "  do     take the call of a backward out of f and g"
        )
    try:
        yield
    finally:
        _LOCK.release()


# --- tensors and modes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a module holds, by place: a shared tensor in every place where it stands. Of a plain callable: nothing.

    ``running``: the buffers of NOTE [running statistics]; ``buffers``: all others.
    """

    parameters: list[Held]
    buffers: list[Held]
    running: list[Held]
    modules: list[Module]
    modes: tuple[bool, ...]

    @staticmethod
    def of(network: Callable[..., Any]) -> Holdings:
        modules = list(network.modules()) if isinstance(network, Module) else []
        parameters: list[Held] = []
        buffers: list[Held] = []
        running: list[Held] = []
        for module in modules:
            parameters += [(own_parameters(module), name, value) for name, value in _filled(own_parameters(module))]
            for name, value in _filled(own_buffers(module)):
                runs = module.training and value.dim() == 1 and value.is_floating_point()
                (running if runs else buffers).append((own_buffers(module), name, value))
        return Holdings(parameters, buffers, running, modules, tuple(module.training for module in modules))


def _filled(table: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in table.items() if value is not None] if table else []


@contextmanager
def replaced(tensors: Sequence[Held]) -> Iterator[None]:
    """Put each tensor into its place, and what was there back at the end. Under the lock."""
    before = [table.get(name) for table, name, _ in tensors]
    try:
        for table, name, tensor in tensors:
            table[name] = tensor
        yield
    finally:
        for (table, name, _), tensor_before in zip(tensors, before, strict=True):
            table[name] = tensor_before


# --- autocast --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Autocast:
    """Whether autocast is on, and to which dtype, by kind of device."""

    kinds: tuple[tuple[str, bool, torch.dtype], ...]

    @staticmethod
    def now(kinds: Sequence[str]) -> Autocast:
        able = [kind for kind in kinds if torch.amp.is_autocast_available(kind)]
        return Autocast(tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in able))

    def entering(self) -> Callable[[], AbstractContextManager[None]]:
        """What enters this state; nothing at all, if autocast was off and is off."""
        off = not any(on for _, on, _ in self.kinds)
        return nullcontext if off and self == Autocast.now([kind for kind, _, _ in self.kinds]) else self._entered

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Keeps no casts: one made without a graph would be found by those who need one (pt#112583)."""
        with ExitStack() as stack:
            for kind, on, dtype in self.kinds:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=on, cache_enabled=False))
            yield
