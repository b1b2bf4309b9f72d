"""``torch.distributed.pipelining``: a schedule makes forwards and backwards, each rank has some of the stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from gradwright.errors import UsageError
from gradwright.training.engines.engine import Engine, norm_of
from gradwright.training.engines.fsdp import replicas_of
from gradwright.training.ranks import Ranks


class Pipeline(Engine):
    """Its gradients are those of the losses' sum, averaged over the replicas where its stages have any (in
    ``DistributedDataParallel`` or sharded by ``fully_shard``); they are divided once, behind the last micro-batch."""

    sums_outside = False
    runs_backward = True

    def __init__(self, model: nn.Module, stages: Sequence[Any], group: Any, seconds: float) -> None:
        self.stages = stages
        counts = {_replicas(stage.submod) for stage in stages}
        if len(counts) > 1:
            raise UsageError(f"the stages of this rank have {counts} replicas: all stages need the same number")
        (self._replicas,) = counts
        within = stages[0].group if self._replicas == 1 else None
        super().__init__(model, Ranks(within if group is None else group, seconds=seconds))
        if self.ranks.count % self._replicas:
            raise UsageError(
                f"{self.ranks.count} ranks make an update, and gradients are averaged over {self._replicas:g}: say "
                "group=, the ranks of all replicas of the pipeline"
            )

    @property
    def first(self) -> bool:
        return any(stage.is_first for stage in self.stages)

    @property
    def last(self) -> bool:
        return any(stage.is_last for stage in self.stages)

    @property
    def replicas(self) -> float:
        return self._replicas

    def norm(self, parameters: Sequence[Tensor]) -> Tensor:
        """Of all stages; each replica counts once."""
        here = norm_of(parameters).to(self.stages[0].device)
        square = here.double().square().reshape(1)
        self.ranks.sum_([square], "taking the norm of all stages")
        return (square[0] / self._replicas).sqrt().to(here.dtype)


def _replicas(module: nn.Module) -> float:
    if isinstance(module, DistributedDataParallel):
        return float(dist.get_world_size(module.process_group))
    return replicas_of(module) if isinstance(module, FSDPModule) else 1.0


def combined(modules: Sequence[nn.Module]) -> nn.Module:
    """One module of the stages that a rank holds."""
    return modules[0] if len(modules) == 1 else nn.ModuleList(modules)
