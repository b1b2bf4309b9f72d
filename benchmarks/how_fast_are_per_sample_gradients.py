"""How fast are the gradients of every sample's loss, beside a plain backward and the libraries made for them?

Three networks, float32: an MLP 64-128-128-10 at B=256 (tanh); a small CNN (three convolutions, GroupNorm, pooling) on
64 images of 3 x 32 x 32; a transformer block (embedding, LayerNorm, attention of four heads by matrix products, a
feed-forward part, a head of 500 tokens) on 32 sequences of 32 tokens.

Two times for each way: *backward*, with a graph that the forward made already (it is made anew before each, untimed),
and *whole*, forward included. ``torch.func`` has no backward of its own: its whole is all there is. BackPACK and Opacus
need their hooks on the modules during the forward: what those cost is in whole. TorchJD and the loop work on the
existing graph, as we do. "plain" is one ordinary backward: the gradient of the sum. "writing alone" fills fresh memory
of the results' size with ones: no way can be faster than the two, as both have to be done.

Hooks registered anywhere in a process make our function listen for them; so there are two runs in one: first without
BackPACK and Opacus, then with their hooks in the process, where "ours beside hooks" is our time there.
In every round each way runs once, in turn; the figure is the median over rounds, the ratio the median of the rounds'
ratios to plain of the same run. The first round is not counted. Every result is compared with ours. Peak bytes: those
of the whole, above what stood before, the result included. The aim: 2.5 times a plain backward, ahead of every peer.

    .venv-peers/bin/python benchmarks/how_fast_are_per_sample_gradients.py [--device cuda] [--rounds 15] [--quick]
"""

from __future__ import annotations

import copy
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from on_device import machine_of, now, peak_bytes, read_setting
from recording import save
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from gradwright.derivatives.per_sample import per_sample_gradients

try:
    import backpack
    import backpack.extensions
    import opacus
    import torchjd.autojac
except ImportError:  # peers, in an environment of their own: tests/real/requirements.txt
    backpack = opacus = torchjd = None

Gradients = dict[str, Tensor]


class Block(nn.Module):
    """Embedding, pre-norm attention written out, feed-forward, a head."""

    def __init__(self, tokens: int = 500, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.table, self.before, self.after = nn.Embedding(tokens, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.wide, self.narrow = nn.Linear(width, width), nn.Linear(width, 256), nn.Linear(256, width)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        normed = self.before(x)
        split = (*x.shape[:-1], self.heads, x.shape[-1] // self.heads)
        query, key, value = (
            layer(normed).view(split).transpose(-3, -2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(query @ key.transpose(-1, -2) / split[-1] ** 0.5, -1)
        x = x + self.out((weights @ value).transpose(-3, -2).reshape(x.shape))
        x = x + self.narrow(F.relu(self.wide(self.after(x))))
        return self.head(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10),
    )  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A network, a batch, and the loss of each sample."""

    net: nn.Module
    x: Tensor
    labels: Tensor

    def loss_of(self, y: Tensor, labels: Tensor) -> Tensor:
        """[B]; the mean over the tokens of a sequence."""
        if y.ndim == 2:
            return F.cross_entropy(y, labels, reduction="none")
        return F.cross_entropy(y.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape).mean(1)

    def losses(self, net: nn.Module | None = None) -> Tensor:
        return self.loss_of((net or self.net)(self.x), self.labels)


@dataclass(frozen=True)
class Way:
    """``forward`` makes what ``backward`` needs; None: it can't be told apart, ``backward`` is all."""

    forward: Callable[[], Any] | None
    backward: Callable[[Any], Gradients]


def plain(problem: Problem) -> Way:
    params = dict(problem.net.named_parameters())

    def backward(losses: Tensor) -> Gradients:
        return dict(zip(params, torch.autograd.grad(losses.sum(), list(params.values())), strict=True))

    return Way(problem.losses, backward)


def writing(problem: Problem) -> Way:
    """The floor: what every way has to do, to put that many numbers into fresh memory."""
    params = dict(problem.net.named_parameters())

    def backward(losses: Tensor) -> Gradients:
        return {
            name: torch.empty((len(losses), *one.shape), dtype=one.dtype, device=one.device).fill_(1.0)
            for name, one in params.items()
        }

    return Way(problem.losses, backward)


def ours(problem: Problem) -> Way:
    return Way(problem.losses, lambda losses: per_sample_gradients(losses, problem.net))


def torch_func(problem: Problem) -> Way:
    params = {name: parameter.detach() for name, parameter in problem.net.named_parameters()}

    def one(given: Gradients, x: Tensor, label: Tensor) -> Tensor:
        return problem.loss_of(functional_call(problem.net, given, (x[None],)), label[None])[0]

    every = vmap(grad(one), in_dims=(None, 0, 0))
    return Way(None, lambda _: every(params, problem.x, problem.labels))


def torchjd_jac(problem: Problem) -> Way:
    params = dict(problem.net.named_parameters())

    def backward(losses: Tensor) -> Gradients:
        return dict(zip(params, torchjd.autojac.jac(losses, list(params.values())), strict=True))

    return Way(problem.losses, backward)


def loop(problem: Problem) -> Way:
    params = dict(problem.net.named_parameters())

    def backward(losses: Tensor) -> Gradients:
        rows = [torch.autograd.grad(loss, list(params.values()), retain_graph=True) for loss in losses]
        return {name: torch.stack(parts) for name, parts in zip(params, zip(*rows, strict=True), strict=True)}

    return Way(problem.losses, backward)


def with_backpack(problem: Problem) -> Way:
    net = copy.deepcopy(problem.net)
    if any(isinstance(module, (nn.LayerNorm, nn.GroupNorm)) for module in net.modules()):
        raise NotImplementedError("BatchGrad knows no LayerNorm and no GroupNorm")
    backpack.extend(net)

    def backward(losses: Tensor) -> Gradients:
        with backpack.backpack(backpack.extensions.BatchGrad()):
            losses.sum().backward()
        found = {name: parameter.grad_batch for name, parameter in net.named_parameters()}  # type: ignore[attr-defined]
        for parameter in net.parameters():
            del parameter.grad_batch  # type: ignore[attr-defined]
            parameter.grad = None
        return found

    return Way(lambda: problem.losses(net), backward)


def with_opacus(problem: Problem) -> Way:
    net = opacus.GradSampleModule(copy.deepcopy(problem.net), loss_reduction="sum")

    def backward(losses: Tensor) -> Gradients:
        losses.sum().backward()
        found = {name: parameter.grad_sample for name, parameter in net._module.named_parameters()}
        net.zero_grad(set_to_none=True)
        return found

    return Way(lambda: problem.losses(net), backward)


ALONE = {
    "plain": plain,
    "writing alone": writing,
    "ours": ours,
    "vmap(grad)": torch_func,
    "TorchJD jac": torchjd_jac,
    "loop": loop,
}
BESIDE = {"plain": plain, "ours beside hooks": ours, "BackPACK": with_backpack, "Opacus": with_opacus}
PEERS = {"TorchJD jac", "BackPACK", "Opacus"}


def problems(device: torch.device) -> dict[str, Problem]:
    torch.manual_seed(0)
    made = {
        "MLP 64-128-128-10, B=256": Problem(mlp(), torch.randn(256, 64), torch.randint(10, (256,))),
        "CNN, B=64": Problem(cnn(), torch.randn(64, 3, 32, 32), torch.randint(10, (64,))),
        "transformer block, B=32": Problem(Block(), torch.randint(500, (32, 32)), torch.randint(500, (32, 32))),
    }
    return {
        name: Problem(given.net.to(device), given.x.to(device), given.labels.to(device)) for name, given in made.items()
    }


def run(way: Way, device: torch.device) -> tuple[float, float]:
    """Seconds of the forward, and of the backward; what was made is let go untimed."""
    begin = now(device)
    state = way.forward() if way.forward else None
    middle = now(device)
    kept = way.backward(state)
    end = now(device)
    del kept
    return middle - begin, end - middle


def whole(way: Way) -> Gradients:
    return way.backward(way.forward() if way.forward else None)


def measure(problem: Problem, ways: dict[str, Any], rounds: int, device: torch.device) -> dict[str, dict[str, Any]]:
    built: dict[str, Way] = {}
    table: dict[str, dict[str, Any]] = {}
    truth = per_sample_gradients(problem.losses(), problem.net)
    for name, build in ways.items():
        if name in PEERS and backpack is None:
            table[name] = {"not run": "not installed"}
            continue
        try:
            built[name] = build(problem)
            found = whole(built[name])
        except (NotImplementedError, RuntimeError) as error:
            built.pop(name, None)
            table[name] = {"not run": str(error).partition("\n")[0][:120]}
            continue
        if name == "writing alone":
            continue
        size = max(float(part.abs().max()) for part in truth.values())
        for key, part in truth.items():
            off = float((found[key] - (part.sum(0) if name == "plain" else part)).abs().max()) / size
            assert off < 1e-4, f"{name} is off by {off:.1e} at {key}"
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in built}
    slow = {"loop": max(1, rounds // 5), "TorchJD jac": max(1, rounds // 2)}
    for turn in range(rounds + 1):
        for name, way in built.items():
            if turn > slow.get(name, rounds):
                continue
            spent = run(way, device)
            if turn:
                took[name].append(spent)
    for name, way in built.items():
        pairs = list(zip(took[name], took["plain"], strict=False))
        row: dict[str, Any] = {"whole_ms": round(1e3 * statistics.median(sum(own) for own in took[name]), 2)}
        row["whole_times_plain"] = round(statistics.median(sum(own) / sum(base) for own, base in pairs), 2)
        if way.forward:
            row["backward_ms"] = round(1e3 * statistics.median(own[1] for own in took[name]), 2)
            row["backward_times_plain"] = round(statistics.median(own[1] / base[1] for own, base in pairs), 2)
        row["peak_MiB"] = round(peak_bytes(partial(whole, way), device) / 2**20, 1)
        table[name] = row
    return table


def main() -> None:
    warnings.filterwarnings("ignore", message="Full backward hook is firing")  # Opacus, where x needs no gradient
    setting = read_setting(__doc__, rounds=15, quick=3)
    given = problems(setting.device)
    tables = {name: measure(problem, ALONE, setting.rounds, setting.device) for name, problem in given.items()}
    for name, problem in given.items():
        beside = measure(problem, BESIDE, setting.rounds, setting.device)
        tables[name] |= {("plain, second run" if way == "plain" else way): row for way, row in beside.items()}
    for name, table in tables.items():
        print(f"\n{name}")
        for way, row in table.items():
            told = "  ".join(f"{key} {value}" for key, value in row.items())
            print(f"  {way:20}{told}")
    results = {}
    for name, table in tables.items():
        others = {way: row["whole_ms"] for way, row in table.items() if "whole_ms" in row and way not in OWN}
        best = min(others, key=others.__getitem__)
        results[name] = {
            "plain_ms": table["plain"]["whole_ms"],
            "ours_ms": table["ours"]["whole_ms"],
            "times_plain": table["ours"]["whole_times_plain"],
            "times_plain_backward_only": table["ours"]["backward_times_plain"],
            "writing_alone_times_plain_backward": table["writing alone"]["backward_times_plain"],
            "best_other": best,
            "best_other_ms": others[best],
        }
    notes = [
        "One thread; medians; forward included unless it says backward only; the aim is 2.5 times plain, ahead of all.",
        "A plain backward of the MLP writes 0.1 MiB, ours 25 MiB: plain and 'writing alone' together are the floor.",
    ]
    if setting.save:
        save(
            "how_fast_are_per_sample_gradients",
            {"machine": machine_of(setting.device), "results": results, "tables": tables, "notes": notes},
        )


OWN = {"plain", "plain, second run", "writing alone", "ours", "ours beside hooks"}

if __name__ == "__main__":
    main()
