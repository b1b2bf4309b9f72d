"""What people get wrong on several ranks, patched into the accumulator of this process (a rank of its own)."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from gradwright.training.engines.ddp import DataParallel
from gradwright.training.engines.engine import Engine
from gradwright.training.engines.fsdp import FullySharded
from gradwright.training.running import Running


def missing_world_factor() -> None:
    """The engine's mean over the ranks is forgotten."""
    Engine.replicas = FullySharded.replicas = property(lambda self: 1.0)  # type: ignore[misc, assignment]


def denominators_of_the_local_rank() -> None:
    total = Running.total

    def here(self: Running, name: str, items: float) -> float | None:
        known = total(self, name, items)
        local = self.window.here().get("", 0.0) * self.window.all_steps / max(1, len(self.window))
        return local or known

    Running.total = here  # type: ignore[method-assign]


def mean_of_means() -> None:
    total = Running.total

    def mean(self: Running, name: str, items: float) -> float | None:
        return None if total(self, name, items) is None else items * self.window.all_steps

    Running.total = mean  # type: ignore[method-assign]


def never_shared() -> None:
    """The last forward, too, stands inside no_sync: DDP averages nothing."""
    micro_batch = DataParallel.micro_batch
    DataParallel.micro_batch = lambda self, *, share: micro_batch(self, share=False)  # type: ignore[method-assign]
    sharded = FullySharded.micro_batch
    FullySharded.micro_batch = lambda self, *, share: sharded(self, share=False)  # type: ignore[method-assign]


def forward_outside_of_no_sync() -> None:
    """DDP shares in each micro-batch: the right sum, by many times the bytes."""

    @contextlib.contextmanager
    def micro_batch(self: DataParallel, *, share: bool) -> Any:
        yield

    DataParallel.micro_batch = micro_batch  # type: ignore[method-assign]


def clipped_by_each_rank() -> None:
    """By the norm of what lies here."""

    def local(self: Engine, parameters: Any) -> Any:
        shards = [one.grad for one in parameters if one.grad is not None]
        return torch.nn.utils.get_total_norm([one.to_local() if hasattr(one, "to_local") else one for one in shards])

    Engine.norm = local  # type: ignore[method-assign]
