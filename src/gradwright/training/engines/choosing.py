"""Which engine a model trains on."""

from __future__ import annotations

import sys
import warnings

import torch.distributed as dist
from torch import nn

from gradwright.training.engines.engine import Engine, SingleProcess


def engine_of(model: nn.Module, seconds: float) -> Engine:
    """Cost: looks at the modules once; torch's engines are imported only where the model was wrapped by one."""
    if dist.is_available() and dist.is_initialized():
        from torch.nn.parallel import DistributedDataParallel

        if isinstance(model, DistributedDataParallel):
            from gradwright.training.engines.ddp import DataParallel

            return DataParallel(model, seconds)
        if "torch.distributed.fsdp" in sys.modules:
            from torch.distributed.fsdp import FSDPModule

            if isinstance(model, FSDPModule):
                from gradwright.training.engines.fsdp import FullySharded

                return FullySharded(model, seconds)
        if dist.get_world_size() > 1:
            warnings.warn(
                f"{dist.get_world_size()} ranks run, and the model is neither in DistributedDataParallel nor sharded "
                "by fully_shard: this rank accumulates for itself, its gradients are not shared",
                stacklevel=4,
            )
    return SingleProcess(model, seconds)
