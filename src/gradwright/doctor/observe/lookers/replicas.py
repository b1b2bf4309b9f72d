"""Whether the copies of a model on several ranks stay alike: DDP gives each the same gradients, so each takes the same
steps. They part where a forward goes past the wrapper (``ddp.module(x)``): then no gradient is shared.

Only what DDP keeps alike is looked at: all its ranks, no communication hook (local SGD parts on purpose), none of the
parameters that it was told to ignore.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.looker import Looker, Surroundings
from gradwright.doctor.session.facts import Fact, ReplicaSums
from gradwright.doctor.session.model import Subject
from gradwright.ground.torch_versions.distributed import has_communication_hooks

_PARAMETERS, _ENTRIES = 16, 1 << 16  # that are looked at


@dataclass
class _Use:
    """One optimizer. ``optimizer``: ``None`` once another stands in its place, which nothing is said of."""

    optimizer: weakref.ref[Optimizer] | None
    parameters: list[weakref.ref[Tensor]]
    names: str
    steps: int = 0
    sums: list[tuple[int, float, float]] = field(default_factory=list)


class ReplicasLooker(Looker):
    """Looks after steps 1, 2, 4, 8 and so on. Cost of a look: a pass over at most a million entries, and on a GPU one
    wait; of the first one a walk over the process's objects, for DDP's. Nothing where there is one rank."""

    looks_at = "whether replicas on several ranks stay alike"

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self._uses: dict[str, _Use] = {}

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        use = self._uses.get(subject.id)
        if use is None:
            if not _has_peers():
                return
            named = list(islice(_kept_alike(optimizer), _PARAMETERS))
            names = hashlib.sha256("\0".join(name for name, _ in named).encode()).hexdigest()[:16]
            use = _Use(weakref.ref(optimizer), [weakref.ref(parameter) for _, parameter in named], names)
            self._uses[subject.id] = use
        if use.optimizer is None or use.optimizer() is not optimizer:
            use.optimizer = None
            use.sums.clear()
            return
        use.steps += 1
        if use.parameters and use.steps & (use.steps - 1) == 0:
            found = _sums([parameter for held in use.parameters if (parameter := held()) is not None])
            use.sums.append((use.steps, *found))

    def facts(self) -> list[Fact]:
        return [
            ReplicaSums(id=f"replicas {subject}", subject=subject, parameters=use.names, sums=tuple(use.sums))
            for subject, use in self._uses.items()
            if use.sums
        ]


def _has_peers() -> bool:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return False
    return int(distributed.get_world_size()) > 1


def _kept_alike(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Those of the optimizer's parameters that DDP keeps alike on all ranks, in the optimizer's order."""
    alike: dict[int, str] = {}
    everybody = sys.modules["torch.distributed"].get_world_size()
    for wrapper in _wrappers():
        if wrapper.process_group.size() != everybody or has_communication_hooks(wrapper):
            continue
        for name, parameter in wrapper.module.named_parameters():
            plain = parameter.layout is torch.strided and parameter.is_floating_point() and parameter.requires_grad
            if plain and name not in wrapper.parameters_to_ignore:
                alike[id(parameter)] = name
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) in alike:
                yield alike[id(parameter)], parameter


def _wrappers() -> list[Any]:
    module = sys.modules.get("torch.nn.parallel.distributed")
    kind = getattr(module, "DistributedDataParallel", None)
    return [] if kind is None else [thing for thing in gc.get_objects() if type(thing) is kind]


@torch.no_grad()
def _sums(parameters: list[Tensor]) -> tuple[float, float]:
    """Of entries and of their absolute values, in float64: the same numbers on ranks that hold the same."""
    entries = [parameter.detach().flatten()[:_ENTRIES].double() for parameter in parameters]
    total = torch.stack([torch.stack([entry.sum(), entry.abs().sum()]) for entry in entries]).sum(0)
    first, second = total.tolist()
    return first, second
