"""What each of two ranks does where memory is short; test_out_of_memory.py looks at what comes back."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
from tests.training.token_model import cross_entropy, drawn, flat, full_gradient, kept, model_of, relative
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradwright.errors import UsageError
from gradwright.training import GradientAccumulator, find_micro_batch_size

HUGE = 1 << 60


def short_memory() -> dict[str, Any]:
    rank = dist.get_rank()
    ddp = DistributedDataParallel(model_of())
    return {
        "sizes": _found(ddp, room=(9, 5)[rank], max_bytes=HUGE),
        "sharded": _found(_sharded(), room=99, max_bytes=HUGE),
        "sharded, refused": _refused(),
        "restarted": _restarted(ddp, room=(99, 2)[rank]),
    }


def _sharded() -> torch.nn.Module:
    model = model_of()
    fully_shard(model[0])
    fully_shard(model)
    return model


def _found(model: torch.nn.Module, *, room: int, max_bytes: int | None) -> tuple[int, bool]:
    def loss_of(batch: tuple[Tensor, Tensor]) -> Tensor:
        if len(batch[0]) > room:
            raise torch.OutOfMemoryError("no room")
        return cross_entropy(model, batch, "sum")

    size = find_micro_batch_size(model, loss_of, drawn([20], torch.float64, dist.get_rank())[0], max_bytes=max_bytes)
    return size, all(parameter.grad is None for parameter in model.parameters())


def _refused() -> str:
    model = _sharded()
    try:
        _found(model, room=99, max_bytes=None)
    except UsageError as error:
        return str(error)
    return ""


def _restarted(model: DistributedDataParallel, room: int) -> tuple[float, int]:
    """Out of memory on one rank only; where gradients are summed beside ``.grad``, all begin again."""
    rank, batches = dist.get_rank(), drawn([16, 16], torch.float64, 0)
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        micro_batch_size=8,
        count=kept,
        accumulate_dtype=torch.float64,
    )

    def loss_of(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = cross_entropy(model, batch, "sum")
        if len(batch[0]) > room:
            raise torch.OutOfMemoryError("no room")
        return loss

    assert acc.micro_batch_size is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for window in acc.windows([batches[rank]]):
            acc.update(window, loss_of, reduction="sum")
    return relative(flat(model.parameters()), full_gradient(batches, torch.float64)), acc.micro_batch_size
