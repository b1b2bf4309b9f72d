"""Fully sharded data parallel, the second (``fully_shard``): gradients are reduced in the last micro-batch only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from gradwright.errors import UsageError
from gradwright.ground.torch_versions.distributed import flatten_mesh, shard_groups
from gradwright.training.engines.engine import Engine
from gradwright.training.ranks import Ranks


class FullySharded(Engine):
    """Its forwards gather parameters, so every rank makes as many; its gradients are averaged by reduce-scatter, and by
    all-reduce over what is replicated (HSDP)."""

    forwards_meet = True
    sums_outside = False

    def __init__(self, model: nn.Module, seconds: float) -> None:
        _refuse_unsharded(model)
        meshes, self._replicas = _meshes_and_replicas(model)
        super().__init__(model, Ranks(_group_of(meshes), seconds=seconds))

    @property
    def replicas(self) -> float:
        return self._replicas

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


def _refuse_unsharded(model: nn.Module) -> None:
    loose = [
        name
        for name, one in model.named_parameters()
        if one.requires_grad and not hasattr(one, "device_mesh") and dist.get_world_size() > 1
    ]
    if loose:
        raise UsageError(
            f"{', '.join(loose[:3])}{f' and {len(loose) - 3} more' if len(loose) > 3 else ''}: parameters that "
            "fully_shard left alone (ignored_params). No rank would share their gradients: shard them, or freeze them "
            "(requires_grad_(False))"
        )


def _meshes_and_replicas(model: nn.Module) -> tuple[list[DeviceMesh], float]:
    """The meshes over which the batch is split, and what gradients are divided by: the ranks of the mesh, or what
    ``set_gradient_divide_factor`` says."""
    meshes: list[DeviceMesh] = []
    factors: set[float] = set()
    for module in model.modules():
        if not isinstance(module, FSDPModule):
            continue
        for group in shard_groups(module):
            mesh = group.mesh_info.mesh
            if mesh not in meshes:
                meshes.append(mesh)
            factors.add(float(group.gradient_divide_factor or mesh.size()))
    if len(factors) > 1:
        raise UsageError(
            f"the gradients of this model are divided by different numbers ({', '.join(f'{one:g}' for one in factors)}"
            "), as its modules are sharded over meshes of different sizes. Say "
            "set_gradient_divide_factor(<ranks that split the batch>) to each of them"
        )
    return meshes, next(iter(factors), 1.0)


def replicas_of(model: nn.Module) -> float:
    """What the engine divides the sum of the ranks' gradients by. Raises: UsageError."""
    _refuse_unsharded(model)
    return _meshes_and_replicas(model)[1]


def _group_of(meshes: list[DeviceMesh]) -> Any:
    """The group of the ranks that split the batch; None: all of them."""
    mesh = max(meshes, key=lambda mesh: mesh.size(), default=None)
    if mesh is None or mesh.size() == dist.get_world_size():
        return None
    return mesh.get_group() if mesh.ndim == 1 else flatten_mesh(mesh).get_group()
