"""What each of several ranks does with a loss of the whole batch, compared with one process that holds everything."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from tests.training.coupled.windows import LOSSES, Net, batch, error, net, pieces
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from gradwright.errors import CoupledLoss
from gradwright.training import GradientAccumulator, coupled_update
from gradwright.training.coupled import outputs
from gradwright.training.shares import Shares

SIZES = ((3, 5, 2), (4, 2), (6,), (2, 2, 1, 3))  # of each rank
MUTANTS = ("missing_world_factor", "shares_of_the_wrong_rank", "loss_of_the_local_rank")


def _sums(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    p, t = z.softmax(1), F.one_hot(y, z.shape[1])
    return (p * t).sum(0), (p + t).sum(0)


def _dice(intersection: Tensor, cardinality: Tensor) -> Tensor:
    return 1 - (2 * intersection / cardinality).mean()


def _with_temperature(z: Tensor, temperature: Tensor) -> Tensor:
    unit = F.normalize(z, dim=1)
    return F.cross_entropy(unit @ unit.roll(1, 1).T / temperature, torch.arange(len(z)))


def wrapped(model: Net, engine: str) -> nn.Module:
    if engine == "ddp":
        return DistributedDataParallel(model)
    for layer in (model.first, model.last):
        fully_shard(layer)
    fully_shard(model)
    return model


def _whole_gradient(model: nn.Module) -> Tensor:
    parts = []
    for parameter in model.parameters():
        gradient = parameter.grad
        if gradient is None:
            parts.append(torch.zeros(parameter.numel()))
        else:
            parts.append((gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient).reshape(-1))
    return torch.cat(parts)


def _mine(of: tuple[Tensor, ...]) -> list[Any]:
    """The micro-batches of this rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    all_sizes = [size for sizes in SIZES[:world] for size in sizes]
    first = sum(len(sizes) for sizes in SIZES[:rank])
    return pieces(of, all_sizes)[first : first + len(SIZES[rank])]


def _case(engine: str, way: str, dtype: torch.dtype, **options: Any) -> dict[str, Any]:
    samples = sum(size for sizes in SIZES[: dist.get_world_size()] for size in sizes)
    whole, bare = net(dtype), net(dtype)
    names = ["temperature", "direct"] if way in ("temperature", "direct") else []
    if not names:
        del whole.temperature, bare.temperature
    x, y = batch(samples, dtype)
    if way == "sums":
        value = _dice(*_sums(whole(x), y))
    else:
        value = _with_temperature(whole(x), whole.temperature.exp()) if names else LOSSES[way](whole(x), y)
    value.backward()
    model = wrapped(copy.deepcopy(bare), engine)
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    window_of = _mine((x, y))
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=len(window_of), progress=False, **options
    )
    combine: Any = "sum" if way == "sums" else "concatenate"
    loss: Any = {"sums": _dice, "temperature": _with_temperature}.get(way) or LOSSES.get(way)
    if way == "direct":

        def loss(z: Tensor) -> Tensor:
            return _with_temperature(z, inner.temperature.exp())

    def forward(pair: Any) -> Any:
        z = model(pair[0])
        if way == "sums":
            return _sums(z, pair[1])
        if names:
            return (z, inner.temperature.exp()) if way == "temperature" else z
        return z, pair[1]

    for _ in range(2):  # the second window finds everything as the first did
        told = coupled_update(acc, acc.window(window_of), forward, loss, combine=combine)
    found = _whole_gradient(model)
    return {
        "case": f"{engine} {way} {options}",
        "dtype": str(dtype)[6:],
        "gradient": error(found, _whole_gradient(whole)),
        "loss": abs(told.loss - float(value.detach())),
    }


def errors(engines: tuple[str, ...], mutant: str = "", few: bool = False) -> list[dict[str, Any]]:
    if mutant == "missing_world_factor":
        Shares.averaged = lambda self, store: 1.0  # type: ignore[method-assign]
    elif mutant == "shares_of_the_wrong_rank":
        own = outputs.Together._over

        def over(self: Any, ranks: Any, joined: Any) -> Any:
            made = own(self, ranks, joined)
            self._before = [0] * len(self._before)
            return made

        outputs.Together._over = over  # type: ignore[method-assign]
    elif mutant == "loss_of_the_local_rank":
        outputs.Together._over = lambda self, ranks, joined: joined  # type: ignore[method-assign]
    made = []
    for engine in engines:
        for dtype in (torch.float64, torch.float32):
            for way in ("dice", "sums") if few else ("dice", "info nce", "sums"):
                made.append(_case(engine, way, dtype))
        if few:
            continue
        if engine == "ddp":
            for way in ("temperature", "direct"):
                made.append(_case(engine, way, torch.float64))
                made.append(_case(engine, way, torch.float64, sync="every"))
            made.append(_case(engine, "pearson", torch.float64, accumulate_dtype=torch.float64))
        made.append(_case(engine, "lovasz", torch.float64, sync="every"))
    return made


def dropout_and_statistics() -> dict[str, Any]:
    """Under DDP: with the draws and the running statistics of one run of each rank by itself."""
    x, y = batch(sum(size for sizes in SIZES[: dist.get_world_size()] for size in sizes))
    mine = _mine((x, y))
    rank = dist.get_rank()
    alone, bare = net(drops=0.4, norms=True), net(drops=0.4, norms=True)
    del alone.temperature, bare.temperature
    model = DistributedDataParallel(bare)
    torch.manual_seed(rank)
    z = torch.cat([alone(one) for one, _ in mine])
    every = [torch.zeros(sum(sizes), z.shape[1], dtype=z.dtype) for sizes in SIZES[: dist.get_world_size()]]
    for other in range(len(every)):
        if other == rank:
            every[other] = z.detach().clone()
        dist.broadcast(every[other], other)
    every[rank] = z
    LOSSES["dice"](torch.cat(every), y).backward()
    for parameter in alone.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
    torch.manual_seed(rank)
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=len(mine), progress=False
    )
    coupled_update(acc, acc.window(mine), lambda pair: (model(pair[0]), pair[1]), LOSSES["dice"])
    buffers = zip(model.module.buffers(), alone.buffers(), strict=True)
    return {
        "gradient": error(_whole_gradient(model.module), _whole_gradient(alone)),
        "buffers": max(float((one.double() - other.double()).abs().max()) for one, other in buffers),
        "draws": float(torch.rand(1)),
    }


def refused() -> dict[str, str]:
    """What all ranks say together, and go on."""
    told = {}
    bare = net(torch.float32)
    del bare.temperature
    model = DistributedDataParallel(bare)
    mine = _mine(batch(sum(sum(sizes) for sizes in SIZES[:2]), torch.float32))
    acc = GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=3, normalize="samples", progress=False
    )
    rank = dist.get_rank()

    def says(name: str, forward: Any) -> None:
        try:
            coupled_update(acc, acc.window(mine), forward, LOSSES["dice"])
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}"

    says("other classes", lambda pair: (model(pair[0])[:, : 3 + rank], pair[1] % 3))
    calls: list[int] = []

    def unsteady(pair: Any) -> Any:
        calls.append(1)
        return model(pair[0]) * (len(calls) if rank == 1 else 1), pair[1]

    says("unsteady", unsteady)
    try:
        for pair in (window := acc.window(mine)):
            acc.backward(LOSSES["dice"](model(pair[0]), pair[1]), reduction="mean")
        assert window
    except CoupledLoss as error:
        told["naive"] = str(error)
    return told
