"""Faults inside a window, as they happen to a rank; each returns what the rank saw of it."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from tests.training.engines.data_parallel import wrapped
from tests.training.token_model import (
    CLASSES,
    FEATURES,
    Batch,
    cross_entropy,
    drawn,
    flat,
    full_gradient,
    kept,
    model_of,
    relative,
)
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradwright.training import GradientAccumulator

LIMIT = 8.0  # seconds that the others wait for a rank that is lost
PATIENT = 120.0  # where none is: no busy machine takes so long
SIZES = [3, 2, 4, 1]


def accumulator(engine: str, **options: Any) -> GradientAccumulator:
    """Windows of two micro-batches."""
    model = wrapped(model_of(), engine)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    options = {"accumulation_steps": 2, "count": kept, "time_limit": PATIENT, "progress": False} | options
    return GradientAccumulator(model, optimizer, **options)


def train(acc: GradientAccumulator, loader: Any, fault: Any = None) -> list[Any]:
    """Its updates. ``fault(window, step)`` runs before each backward."""
    updates = []
    for window in acc.windows(loader):
        for step, batch in enumerate(window):
            loss = cross_entropy(acc.model, batch, "sum")
            if fault is not None:
                loss = fault(window.index, step, loss)
            acc.backward(loss, reduction="sum")
        updates.append(acc.step())
    return updates


def batches(seed: int | None = None, sizes: list[int] | None = None) -> list[Batch]:
    return drawn(SIZES if sizes is None else sizes, torch.float64, dist.get_rank() if seed is None else seed)


def slow(engine: str) -> int:
    """Rank 1 takes its time in its second window."""

    def fault(window: int, step: int, loss: Tensor) -> Tensor:
        if dist.get_rank() == 1 and (window, step) == (1, 0):
            time.sleep(1.0)
        return loss

    return len(train(accumulator(engine), batches(), fault))


def stopped(engine: str, how: str, **options: Any) -> int:
    """Rank 1 dies or hangs in its second window."""

    def fault(window: int, step: int, loss: Tensor) -> Tensor:
        if dist.get_rank() == 1 and (window, step) == (1, 0):
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "raises":
                raise ZeroDivisionError("in the user's own code")
            time.sleep(LIMIT + 4.0)
        return loss

    return len(train(accumulator(engine, time_limit=LIMIT, **options), batches(), fault))


def stopped_where(options: dict[str, Any]) -> int:
    return stopped("ddp", "hangs", **options)


def loader_that(how: str) -> int:
    """Rank 1's loader ends early, or raises, in the second window."""

    def loading() -> Iterator[Batch]:
        for at, batch in enumerate(batches()):
            if dist.get_rank() == 1 and at == (2 if how == "ends" else 3):
                if how == "ends":
                    return
                raise OSError("the disk is gone")
            yield batch

    return len(train(accumulator("ddp"), loading()))


def uneven(engine: str) -> list[float]:
    """One rank has three micro-batches in the last window, the other one; then one has no window more."""
    sizes = [2, 3, 1, 4, 2] if dist.get_rank() else [2, 3, 1]
    acc = accumulator(engine, accumulation_steps=3)
    return [update.loss for update in train(acc, batches(sizes=sizes))]


def not_a_number(engine: str, on_nonfinite: str, place: str) -> Any:
    """NaN in micro-batch 1 of rank 1's first window: in the loss, or in its backward only."""
    acc = accumulator(engine, on_nonfinite=on_nonfinite)
    before = [one.detach().clone() for one in acc.parameters]

    def fault(window: int, step: int, loss: Tensor) -> Tensor:
        if dist.get_rank() == 1 and (window, step) == (0, 1):
            return loss * float("nan") if place == "loss" else loss + _BackwardNaN.apply(loss)
        return loss

    updates = train(acc, batches(), fault)
    told = [update.why_not for update in updates]
    moved = any(not torch.equal(_whole(one), _whole(old)) for one, old in zip(acc.parameters, before, strict=True))
    return told, moved, torch.cat([_whole(one).reshape(-1) for one in acc.parameters]).tolist()


class _BackwardNaN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        return torch.zeros_like(loss)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent * float("nan")


def _whole(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def scaled_to_infinity(engine: str) -> Any:
    """A gradient scaler meets inf in the shard of one rank: all skip the step together, and lower their scales."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    acc = accumulator(engine, scaler=scaler)
    updates = []
    for window in acc.windows(batches()):
        for batch in window:
            acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")
        gradient = acc.parameters[0].grad
        if window.index == 0 and engine == "fsdp" and dist.get_rank() == 1:
            gradient.to_local()[0] = float("inf")
        elif window.index == 0 and engine == "ddp":
            gradient[0] = float("inf")
        updates.append(acc.step())
    parameters = torch.cat([_whole(one).reshape(-1) for one in acc.parameters]).tolist()
    return [update.stepped for update in updates], scaler.get_scale(), parameters


def nothing_anywhere(engine: str) -> tuple[int, int]:
    """The second of three windows has no items on any rank; in the first, rank 1 has none."""
    rank = dist.get_rank()
    all_ignored = drawn([2, 2, 3, 1, 2, 2], torch.float64, rank, empty=(2, 3) + ((0, 1) if rank else ()))
    acc = accumulator(engine)
    return len(train(acc, all_ignored)), acc.skipped_windows


class Branches(nn.Module):
    """``second`` is used by the micro-batches that ask for it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = model_of(), nn.Linear(FEATURES, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor, more: bool) -> Tensor:
        return self.first(x) + self.second(x) if more else self.first(x)


def some_parameters(find_unused: bool, used_in: int, accumulate: str | None = None) -> Any:
    """``second`` has a gradient in micro-batch ``used_in`` only (of rank 1 only, where that is 2)."""
    torch.manual_seed(0)
    whole = Branches()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistributedDataParallel(Branches(), find_unused_parameters=find_unused)
    ranks = [drawn([3, 2], torch.float64, rank) for rank in range(dist.get_world_size())]

    def uses(rank: int, step: int) -> bool:
        return step == used_in if used_in < 2 else (rank, step) == (1, 1)

    total = sum(int(kept(batch)) for rank in ranks for batch in rank)
    for rank, mine in enumerate(ranks):
        for step, batch in enumerate(mine):
            used = uses(rank, step)
            loss = cross_entropy(lambda x, used=used: whole(x, used), batch, "sum")
            (loss / total).backward()
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, count=kept, progress=False,
        time_limit=10.0, accumulate_dtype=accumulate and getattr(torch, accumulate),
    )  # fmt: skip
    rank = dist.get_rank()
    for step, batch in enumerate(acc.window(ranks[rank])):
        used = uses(rank, step)
        loss = cross_entropy(lambda x, used=used: model(x, used), batch, "sum")
        acc.backward(loss, reduction="sum")
    acc.step()
    return relative(flat(model.parameters()), flat(whole.parameters()))


def left_the_loop() -> Any:
    """Rank 1 swallows an exception of its own, and goes on with the next window."""
    acc = accumulator("ddp")
    for window in acc.windows(batches()):
        try:
            for step, batch in enumerate(window):
                if dist.get_rank() == 1 and (window.index, step) == (0, 1):
                    raise MemoryError
                acc.backward(cross_entropy(acc.model, batch, "sum"), reduction="sum")
            acc.step()
        except MemoryError:
            continue


def lbfgs(engine: str) -> float:
    """Three steps of L-BFGS over the ranks' micro-batches, against the full batch."""
    ranks = [drawn([3, 1, 2], torch.float64, rank) for rank in range(dist.get_world_size())]
    everything = [batch for rank in ranks for batch in rank]
    whole = model_of()
    plain = torch.optim.LBFGS(whole.parameters(), lr=0.5, max_iter=4)
    x, y = torch.cat([x for x, _ in everything]), torch.cat([y for _, y in everything])

    def closure() -> Tensor:
        plain.zero_grad()
        loss = cross_entropy(whole, (x, y), "mean")
        loss.backward()
        return loss

    model = wrapped(model_of(), engine)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    acc = GradientAccumulator(model, optimizer, accumulation_steps=3, count=kept, progress=False, time_limit=10.0)
    mine = ranks[dist.get_rank()]
    for _ in range(3):
        plain.step(closure)
        update = acc.update(acc.window(mine), lambda batch: cross_entropy(model, batch, "sum"), reduction="sum")
        assert update.stepped
    found = torch.cat([_whole(one).reshape(-1) for one in model.parameters()])
    expected = torch.cat([one.detach().reshape(-1) for one in whole.parameters()])
    return relative(found, expected)


def mean_of_nothing(engine: str) -> float:
    """A micro-batch of rank 1 without items, its loss a mean: NaN, were it not left out."""
    ranks = [drawn([3, 2], torch.float64, rank, empty=(0,) if rank else ()) for rank in range(dist.get_world_size())]
    acc = accumulator(engine)
    for batch in acc.window(ranks[dist.get_rank()]):
        acc.backward(cross_entropy(acc.model, batch, "mean"), reduction="mean")
    acc.step()
    return relative(flat(acc.parameters), full_gradient([one for rank in ranks for one in rank], torch.float64))


def losses_of_some_ranks() -> None:
    """Rank 1 leaves out a loss that rank 0 has."""
    acc = accumulator("ddp", count={"ce": kept, "square": lambda batch: len(batch[1])})
    for batch in acc.window(batches()):
        logits = acc.model(batch[0])
        losses = {"ce": cross_entropy(lambda _, logits=logits: logits, batch, "sum")}
        acc.backward(losses | ({} if dist.get_rank() else {"square": logits.square().sum()}), reduction="sum")
    acc.step()


def stopped_in_a_group() -> int:
    """Two groups of two ranks shard a model each; the last rank of all dies in its second window."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("split", "copies"))
    model = model_of()
    fully_shard(model, mesh=mesh["split"])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    acc = GradientAccumulator(
        model, optimizer, accumulation_steps=2, count=kept, time_limit=LIMIT, progress=False
    )  # fmt: skip

    def fault(window: int, step: int, loss: Tensor) -> Tensor:
        if dist.get_rank() == 3 and window == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss

    return len(train(acc, batches(seed=dist.get_rank() // 2), fault))
