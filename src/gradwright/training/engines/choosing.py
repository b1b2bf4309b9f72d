"""Which engine a model trains on."""

from __future__ import annotations

import sys
import warnings

import torch.distributed as dist
from torch import nn

from gradwright.errors import UsageError
from gradwright.training.engines.engine import Engine, SingleProcess


def engine_of(model: nn.Module, seconds: float) -> Engine:
    """Cost: looks at the modules once; torch's engines are imported only where the model was wrapped by one.

    Raises: UsageError, where an engine sits inside the model, or is one that is not known here: the division would be
    wrong in silence.
    """
    if dist.is_available() and dist.is_initialized():
        from torch.nn.parallel import DistributedDataParallel

        if isinstance(model, DistributedDataParallel):
            from gradwright.training.engines.ddp import DataParallel

            return DataParallel(model, seconds)
        fsdp = sys.modules.get("torch.distributed.fsdp")
        if fsdp is not None and isinstance(model, fsdp.FSDPModule):
            from gradwright.training.engines.fsdp import FullySharded

            return FullySharded(model, seconds)
        _refuse_inner(model, DistributedDataParallel, fsdp)
        if dist.get_world_size() > 1:
            warnings.warn(
                f"{dist.get_world_size()} ranks run, and the model is neither in DistributedDataParallel nor sharded "
                "by fully_shard: this rank accumulates for itself, its gradients are not shared",
                stacklevel=4,
            )
    return SingleProcess(model, seconds)


def _refuse_inner(model: nn.Module, ddp: type, fsdp: object) -> None:
    older = getattr(fsdp, "FullyShardedDataParallel", ())
    sharded = getattr(fsdp, "FSDPModule", ())
    for name, module in model.named_modules():
        where = f"{name} ({type(module).__name__})" if name else type(module).__name__
        if isinstance(module, older):
            raise UsageError(f"{where}: of FSDP, the second is supported. Shard the model by fully_shard(module)")
        if isinstance(module, ddp):
            raise UsageError(
                f"{where} is DistributedDataParallel inside of the model: its no_sync could not be entered. Give that "
                "module to GradientAccumulator; several of them take an accumulator each"
            )
        if isinstance(module, sharded):
            raise UsageError(
                f"{where} is sharded, and the model around it is not: shard it too, fully_shard(model), so that its "
                "gradients are shared as well"
            )
