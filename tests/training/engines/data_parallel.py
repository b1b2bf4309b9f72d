"""Cases of several ranks, each run by every rank on its own micro-batches and compared with the full batch."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradwright.training import GradientAccumulator


@dataclass(frozen=True)
class Case:
    """``empty``: "" , "micro" (a micro-batch of each rank holds no items), "rank" (all of rank 1's do not)."""

    engine: str
    dtype: str = "float64"
    reduction: str = "sum"
    how: str = "count"
    sync: str = "last"
    accumulate_dtype: str | None = None
    separate: bool = False
    empty: str = ""
    seed: int = 0

    @property
    def max_norm(self) -> float:
        """Half of the cases are clipped."""
        return random.Random(self.seed).choice([1e9, 0.01])

    def batches(self) -> list[list[Batch]]:
        """Of every rank: from 1 to 4 micro-batches of from 1 to 5 samples."""
        generator = random.Random(self.seed)
        ranks = []
        for rank in range(dist.get_world_size()):
            sizes = [generator.randint(1, 5) for _ in range(generator.randint(1, 4))]
            everything, one = tuple(range(len(sizes))), (generator.randrange(len(sizes)),)
            empty = {"": (), "micro": one, "rank": everything if rank == 1 else ()}[self.empty]
            if rank == 0 and self.empty == "micro" and len(sizes) == 1:
                empty = ()
            ranks.append(drawn(sizes, getattr(torch, self.dtype), 100 * self.seed + rank, empty=empty))
        return ranks


def all_cases(engines: tuple[str, ...]) -> Iterator[Case]:
    seed = 0
    for engine in engines:
        sharded = engine in ("fsdp", "hsdp")
        for reduction in ("sum", "mean"):
            for how in ("count", "items", "samples"):
                for sync in ("last", "every"):
                    for dtype in ("float64", "float32"):
                        for empty in ("", "micro", "rank"):
                            if sharded and empty and reduction == "mean":
                                continue  # refused: see test_faults.py
                            if how == "samples" and reduction == "mean":
                                continue  # a mean over labels is not one over samples
                            seed += 1
                            yield Case(engine, dtype, reduction, how, sync, empty=empty, seed=seed)
        yield Case(engine, separate=True, seed=1)
        yield Case(engine, separate=True, how="items", empty="micro", seed=2)
        if not sharded:
            yield Case(engine, accumulate_dtype="float64", dtype="float32", seed=3)
            yield Case(engine, accumulate_dtype="float64", sync="every", empty="rank", reduction="mean", seed=4)


def wrapped(model: nn.Module, engine: str) -> nn.Module:
    if engine == "ddp":
        return DistributedDataParallel(model)
    if engine == "ddp-unused":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return DistributedDataParallel(model, find_unused_parameters=True)
    half = dist.get_world_size() // 2
    mesh = None if engine == "fsdp" else init_device_mesh("cpu", (2, half), mesh_dim_names=("replicate", "shard"))
    for layer in model.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def gradient(case: Case, batches: list[Batch], seconds: float) -> tuple[torch.Tensor, float, float]:
    """What GradientAccumulator makes of this rank's micro-batches; the loss and the norm it tells."""
    model = wrapped(model_of(getattr(torch, case.dtype)), case.engine)
    hows: dict[str, dict[str, Any]] = {"count": {"count": kept}, "items": {}, "samples": {"normalize": "samples"}}
    options = hows[case.how]
    wider = case.accumulate_dtype
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        accumulation_steps=4,
        sync=case.sync,
        separate=case.separate,
        accumulate_dtype=wider and getattr(torch, wider),
        max_norm=case.max_norm,
        time_limit=seconds,
        progress=False,
        **options,
    )
    (update,) = [_update(acc, case, window) for window in acc.windows(batches)]
    assert update.stepped
    return flat(model.parameters()), update.loss, float(update.gradient_norm)


def _update(acc: GradientAccumulator, case: Case, window: Any) -> Any:
    for batch in window:
        loss = cross_entropy(acc.model, batch, case.reduction)
        acc.backward(loss, reduction=case.reduction, items=kept(batch) if case.how == "items" else None)
    return acc.step()


def errors(
    engines: tuple[str, ...], mutant: str = "", most: int | None = None, seconds: float = 20.0
) -> list[dict[str, Any]]:
    """On this rank: each case, how far its gradient, loss and norm are off, relative, or what it raised."""
    if mutant:
        from tests.training.engines import mutants

        getattr(mutants, mutant)()
    cases = list(all_cases(engines))
    told = []
    for case in cases if most is None else random.Random(0).sample(cases, most):
        ranks = case.batches()
        everything = [batch for batches in ranks for batch in batches]
        dtype = getattr(torch, case.dtype)
        expected = full_gradient(everything, dtype)
        whole = model_of(dtype)
        loss = float(cross_entropy(whole, joined(everything), "mean").detach())
        if case.how == "samples":
            share = float(kept(joined(everything))) / len(joined(everything)[1])
            expected, loss = expected * share, loss * share
        whole_norm = float(expected.norm())
        expected = expected * min(1.0, case.max_norm / (whole_norm + 1e-6))  # as clip_grad_norm_ does it
        found, told_loss, norm = gradient(case, ranks[dist.get_rank()], seconds)
        told.append(
            asdict(case)
            | {
                "gradient": relative(found, expected),
                "loss": abs(told_loss - loss) / abs(loss),
                "norm": abs(norm - whole_norm) / whole_norm,
            }
        )
    return told


def reductions(sync: str, mutant: str = "") -> int:
    """How often DDP reduces a bucket in a window of three micro-batches."""
    if mutant:
        from tests.training.engines import mutants

        getattr(mutants, mutant)()
    model = DistributedDataParallel(model_of())
    seen: list[int] = []

    def hook(state, bucket):
        seen.append(bucket.buffer().numel())
        return default_hooks.allreduce_hook(dist.group.WORLD, bucket)

    model.register_comm_hook(None, hook)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=3, count=kept, sync=sync, progress=False
    )
    for batch in (window := acc.window(drawn([3, 2, 4], torch.float64, dist.get_rank()))):
        acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
    assert len(window) == 3 and acc.step().stepped
    return len(seen)
