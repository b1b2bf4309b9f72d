"""What each of two ranks does with several losses and monitors, compared with one process that holds everything."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from tests.training.several.players import LATENT, full_step, play, players
from tests.training.several.players import Batch as Point
from tests.training.several.two_heads import COUNT, Batch, TwoHeads, drawn, losses, relative
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradwright.training import Curves, GradientAccumulator, GradientEMA, GradientNoiseScale, LossConflicts

SIZES = ((3, 5, 2), (4, 1, 6))  # of each rank
WINDOWS = 4


class ByWeights:
    """Like torchjd's aggregators: weights from the Gramian, which here are not the same for any two losses."""

    def gramian_weighting(self, table: Tensor) -> Tensor:
        return 1.0 / table.diagonal().sqrt() + 0.1 * table[0, 1]

    def __call__(self, matrix: Tensor) -> Tensor:
        return self.gramian_weighting(matrix @ matrix.T).to(matrix.dtype) @ matrix


def smallest(matrix: Tensor) -> Tensor:
    return torch.where(matrix[0].abs() < matrix[1].abs(), matrix[0], matrix[1])


def drawing(matrix: Tensor) -> Tensor:
    return (matrix * torch.rand_like(matrix)).sum(0)


class Writer:
    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.scalars[tag, step] = value


def whole(tensors: Any) -> Tensor:
    parts = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in tensors]
    return torch.cat([one.detach().reshape(-1) for one in parts])


def windows(sizes: tuple[int, ...], rank: int) -> list[list[Batch]]:
    return [drawn(sizes, seed=100 * at + rank) for at in range(WINDOWS)]


def train(model: nn.Module, batches: list[list[Batch]], **options: Any) -> GradientAccumulator:
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.05), accumulation_steps=9, count=COUNT, progress=False, **options
    )
    for window in batches:
        acc.update(acc.window(window), lambda batch: losses(model, batch), reduction="sum")
    return acc


def wrapped(engine: str) -> nn.Module:
    model = TwoHeads()
    if engine == "ddp":
        return DistributedDataParallel(model)
    for part in (model.trunk, model.labels, model.values):
        fully_shard(part)
    fully_shard(model)
    return model


def both(engine: str, make: Callable[[], dict[str, Any]]) -> tuple[nn.Module, GradientAccumulator, Any, Any]:
    """Here, and what one process makes of all ranks' batches."""
    rank = dist.get_rank()
    model, alone = wrapped(engine), TwoHeads()
    acc = train(model, windows(SIZES[rank], rank), **make())
    everything = [
        list(chain(*parts)) for parts in zip(*(windows(one, at) for at, one in enumerate(SIZES)), strict=True)
    ]
    options = make() | {"sync": "last"}
    return model, acc, alone, train(alone, everything, **options)


def off(engine: str, make: Callable[[], dict[str, Any]]) -> float:
    """How far the parameters are apart after all updates, relative."""
    model, _, alone, _ = both(engine, make)
    return relative(whole(model.parameters()), whole(alone.parameters()))


def cases() -> dict[str, Any]:
    """Every case by its name."""
    told: dict[str, Any] = {}
    for engine in ("ddp", "fsdp"):
        told[f"{engine} separate"] = off(engine, lambda: {"separate": True})
        told[f"{engine} weights"] = off(engine, lambda: {"weights": {"class": 0.3, "value": lambda update: update / 4}})
        told[f"{engine} by weights"] = off(engine, lambda: {"aggregator": ByWeights()})
        told[f"{engine} smoothed"] = off(engine, lambda: {"smoothing": GradientEMA(0.7), "max_norm": 0.5})
        told[f"{engine} amplified"] = off(engine, lambda: {"smoothing": GradientEMA(0.9, lamb=2.0)})
        told[f"{engine} conflicts"] = conflicts(engine)
        told[f"{engine} curves"] = curves(engine)
    told["ddp by matrix"] = off("ddp", lambda: {"aggregator": smallest})
    told["ddp drawing"] = whole(both("ddp", lambda: {"aggregator": drawing})[0].parameters()).tolist()
    told["fsdp by matrix"] = failure(lambda: off("fsdp", lambda: {"aggregator": smallest}))
    for name, engine, options in (
        ("ddp last", "ddp", {}),
        ("ddp uneven", "ddp", {}),
        ("ddp every", "ddp", {"sync": "every"}),
        ("ddp separate", "ddp", {"separate": True}),
        ("fsdp every", "fsdp", {"sync": "every"}),
        ("fsdp separate", "fsdp", {"separate": True}),
    ):
        told[f"{name} noise"] = noise(engine, options, uneven="uneven" in name)
    told["fsdp last noise"] = unseen()
    told["players"] = adversaries()
    told["other losses"] = failure(other_losses)
    return told


def failure(run: Callable[[], Any]) -> str:
    try:
        return f"no failure: {run()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def conflicts(engine: str) -> dict[str, Any]:
    seen: list[LossConflicts] = []

    def make() -> dict[str, Any]:
        seen.append(LossConflicts())
        return {"separate": True, "monitors": [seen[-1]]}

    both(engine, make)
    here, alone = (one.latest for one in seen)
    assert here is not None and alone is not None
    return {
        "shared": list(here.shared),
        "expected": list(alone.shared),
        "off": max(
            *(abs(here.norms[name] / norm - 1) for name, norm in alone.norms.items()),
            *(abs(here.cosines[pair] - cosine) for pair, cosine in alone.cosines.items()),
        ),
    }


def curves(engine: str) -> dict[str, Any]:
    writers: list[Writer] = []

    def make() -> dict[str, Any]:
        writers.append(Writer())
        return {"monitors": [Curves(writers[-1], every=2)], "max_norm": 0.5}

    both(engine, make)
    here, alone = (one.scalars for one in writers)
    return {
        "written": len(here),
        "same": set(here) == set(alone),
        "off": max((abs(here[key] - value) / abs(value) for key, value in alone.items() if key in here), default=0.0),
    }


def noise(engine: str, options: dict[str, Any], *, uneven: bool) -> list[float]:
    """How far its two estimates are from those made by hand."""
    seen = GradientNoiseScale("value" if "separate" in options else None, decay=1.0)
    rank = dist.get_rank()
    model = wrapped(engine)
    ranks = [windows(sizes, at)[0][: 1 if uneven and at == 0 else None] for at, sizes in enumerate(SIZES)]
    acc = GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), 0.0),
        accumulation_steps=3,
        normalize="samples",
        monitors=[seen],
        **options,
    )
    acc.update(acc.window(ranks[rank]), lambda batch: losses(model, batch), reduction="sum")
    found, expected = seen.estimate(), by_hand(ranks, options, engine)
    return [abs(found.trace / expected[0] - 1), abs(found.squared_norm / expected[1] - 1)]


def by_hand(ranks: list[list[Batch]], options: dict[str, Any], engine: str) -> tuple[float, float]:
    """tr(Sigma) and |G|² from the micro-gradients that can be told apart."""
    model = TwoHeads()

    def summed(batches: list[Batch]) -> tuple[float, Tensor]:
        found = [losses(model, batch) for batch in batches]
        total = sum(one["value"] + (0.0 if "separate" in options else one["class"]) for one in found)
        reached = [*model.trunk.parameters(), *model.values.parameters()]
        gradients = torch.autograd.grad(total, reached if "separate" in options else list(model.parameters()))
        return float(sum(len(batch[0]) for batch in batches)), whole(gradients)

    everything = summed(list(chain(*ranks)))
    if options.get("sync") == "every" or engine == "fsdp":
        parts = [summed(list(step)) for step in zip(*ranks, strict=True)]
    else:
        parts = [summed([batch]) for rank in ranks for batch in (rank if "separate" in options else rank[:-1])]
    small = sum(float(g.square().sum()) / n for n, g in parts) / sum(n for n, _ in parts)
    total, g = everything
    big = float((g / total).square().sum())
    b = sum(n for n, _ in parts) / len(parts)
    return (small - big) / (1 / b - 1 / total), (total * big - b * small) / (total - b)


def unseen() -> str:
    seen = GradientNoiseScale()
    model, rank = wrapped("fsdp"), dist.get_rank()
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=3, normalize="samples", monitors=[seen]
    )
    acc.update(acc.window(windows(SIZES[rank], rank)[0]), lambda batch: losses(model, batch), reduction="sum")
    return str(seen.estimate())


def adversaries() -> float:
    """Both players of a GAN replicated, two updates each."""
    parts: list[list[Point]] = [
        [(torch.randn(size, 2).double(), torch.randn(size, LATENT).double()) for size in sizes] for sizes in SIZES
    ]
    (maker, judge), (full_maker, full_judge) = map(DistributedDataParallel, players()), players()
    for _ in range(2):
        play(maker, judge, parts[dist.get_rank()])
        full_step(full_maker, full_judge, *(torch.cat(one) for one in zip(*chain(*parts), strict=True)))
    return max(
        relative(whole(one.parameters()), whole(other.parameters()))
        for one, other in ((maker, full_maker), (judge, full_judge))
    )


def other_losses() -> None:
    model, rank = wrapped("ddp"), dist.get_rank()
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=3, count=COUNT, separate=True
    )
    acc.update(
        acc.window(windows(SIZES[rank], rank)[0]),
        lambda batch: {name: loss for name, loss in losses(model, batch).items() if name == "value" or rank == 0},
        reduction="sum",
    )
