"""Models as people wrap them, and what the accumulator takes them for."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
from tests.training.token_model import (
    Batch,
    cross_entropy,
    drawn,
    flat,
    full_gradient,
    joined,
    kept,
    model_of,
    relative,
)
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradwright.training import GradientAccumulator


def _accumulator(model: nn.Module, **options: Any) -> GradientAccumulator:
    options = {"accumulation_steps": 3, "count": kept, "progress": False, "time_limit": 20.0} | options
    return GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.0), **options)


def _error(model: nn.Module) -> float:
    ranks = [drawn([3, 1, 2], torch.float64, rank) for rank in range(dist.get_world_size())]
    acc = _accumulator(model)
    for batch in acc.window(ranks[dist.get_rank()]):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    acc.step()
    return relative(flat(model.parameters()), full_gradient([one for rank in ranks for one in rank], torch.float64))


def choices() -> dict[str, Any]:
    """Of each model, the gradient's error, or what was raised."""
    return {name: _tried(make) for name, make in _MODELS.items()}


def _tried(make: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _error(make())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _divided_by_another_number() -> nn.Module:
    """A sum over the ranks in place of their mean, everywhere."""
    model = model_of()
    fully_shard(model).set_gradient_divide_factor(1.0)
    return model


def _divided_by_different_numbers() -> nn.Module:
    model = model_of()
    fully_shard(model[0]).set_gradient_divide_factor(1.0)
    fully_shard(model)
    return model


def _ignored() -> nn.Module:
    model = model_of()
    fully_shard(model, ignored_params={model[0].bias})
    return model


def _only_inside() -> nn.Module:
    model = model_of()
    fully_shard(model[0])
    return model


_MODELS = {
    "ddp": lambda: DistributedDataParallel(model_of()),
    "sharded": lambda: fully_shard(model_of()),
    "divided by another number": _divided_by_another_number,
    "divided by different numbers": _divided_by_different_numbers,
    "ignored": _ignored,
    "only inside": _only_inside,
    "ddp inside": lambda: nn.Sequential(DistributedDataParallel(model_of())),
    "first fsdp": lambda: FullyShardedDataParallel(model_of(), device_id=torch.device("cpu")),
    "first fsdp inside": lambda: nn.Sequential(FullyShardedDataParallel(model_of(), device_id=torch.device("cpu"))),
}


def alone() -> str:
    """A plain model, while several ranks run."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _accumulator(model_of())
    return " ".join(str(one.message) for one in told)


def several_backwards(order: str, engine: str = "ddp") -> float:
    """Two losses of a micro-batch: each its forward and its backward, or both forwards first."""
    model = DistributedDataParallel(model_of()) if engine == "ddp" else fully_shard(model_of())
    ranks = [drawn([3, 2, 4], torch.float64, rank) for rank in range(dist.get_world_size())]
    everything = joined([batch for rank in ranks for batch in rank])
    whole = model_of()
    (cross_entropy(whole, everything, "mean") + whole(everything[0]).square().sum() / len(everything[1])).backward()
    acc = _accumulator(model, count={"ce": kept, "square": lambda batch: len(batch[1])})
    for batch in acc.window(ranks[dist.get_rank()]):
        if order == "in turn":
            acc.backward({"ce": cross_entropy(model, batch, "sum")}, reduction="sum")
            acc.backward({"square": model(batch[0]).square().sum()}, reduction="sum")
        else:
            forward = model.module if order == "beside" else model
            ce, square = cross_entropy(forward, batch, "sum"), forward(batch[0]).square().sum()
            if order in ("together", "beside"):
                acc.backward({"ce": ce, "square": square}, reduction="sum")
            else:
                acc.backward({"ce": ce}, reduction="sum")
                acc.backward({"square": square}, reduction="sum")
    acc.step()
    return relative(flat(model.parameters()), flat(whole.parameters()))


def sixteen_bits(wide: bool) -> float:
    """64 micro-batches of one sample on each rank, in bfloat16, sharded; what they are off from float64."""
    reduced = torch.float32 if wide else None
    model = model_of(torch.float32)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced))
    ranks = [drawn([1] * 64, torch.float32, rank) for rank in range(dist.get_world_size())]
    exact = model_of(torch.float32).double()
    everything: Batch = joined([batch for rank in ranks for batch in rank])
    cross_entropy(exact, (everything[0].double(), everything[1]), "mean").backward()
    acc = _accumulator(model, accumulation_steps=64)
    for batch in acc.window(ranks[dist.get_rank()]):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    acc.step()
    return relative(flat(model.parameters()), flat(exact.parameters()))
