"""Fully sharded data parallel, the second (``fully_shard``): gradients are reduced in the last micro-batch only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from gradwright.training.engines.engine import Engine
from gradwright.training.ranks import Ranks


class FullySharded(Engine):
    """Its forwards gather parameters, so every rank makes as many; its gradients are averaged by reduce-scatter."""

    forwards_meet = True
    sums_outside = False

    def __init__(self, model: nn.Module, seconds: float) -> None:
        super().__init__(model, Ranks(_group_of(model), seconds=seconds))

    @contextlib.contextmanager
    def micro_batch(self, *, share: bool) -> Iterator[None]:
        assert isinstance(self.model, FSDPModule)
        self.model.set_is_last_backward(share)
        self.model.set_requires_gradient_sync(share)
        try:
            yield
        finally:
            self.model.set_is_last_backward(True)
            self.model.set_requires_gradient_sync(True)


def _group_of(model: nn.Module) -> Any:
    """The group over which the parameters are sharded and replicated; None: all ranks."""
    meshes = [parameter.device_mesh for parameter in model.parameters() if hasattr(parameter, "device_mesh")]
    mesh = max(meshes, key=lambda mesh: mesh.size(), default=None)
    return mesh.get_group() if mesh is not None and mesh.ndim == 1 else None
