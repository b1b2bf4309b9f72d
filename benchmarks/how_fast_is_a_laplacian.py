"""How fast is the Laplacian of a network, beside nested autograd?

An MLP D -> 128 -> 128 -> 128 -> 1 with tanh, B = 256, float32, D in 3, 10, 50. Plain, and differentiable, where the
time includes a loss (the mean of the Laplacian's square) and the gradients of all parameters, as in a physics-informed
network. ``nested autograd`` is what such networks' authors write: the gradient with a graph, then a backward for each
entry, of which the diagonal is kept. It and ``gw.laplacian(y, x)`` use the graph that exists; the others take a
function and run the network again within their time. ``written by hand`` knows the layers: the forward Laplacian of
this very network, from its weights.

In every round each way runs once, in turn; the figure is the median over rounds, the ratio the median of the rounds'
ratios to nested autograd. The first round is not counted. On a CPU it is the CPU time of one thread, so that another
process's turn doesn't count. Every result is compared with nested autograd's. Peak bytes are those above what stood
before the call. The aim: half of nested autograd's time at D = 50, differentiable.

    python benchmarks/how_fast_is_a_laplacian.py [--device cuda] [--rounds 15] [--quick] [--no-save]
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from on_device import machine_of, peak_bytes, read_setting, seconds
from recording import save
from torch import Tensor, nn

from gradwright.derivatives.laplacians import laplacian

SAMPLES, WIDTH = 256, 128


@dataclass(frozen=True)
class Problem:
    """A network, the graph from ``x`` [B, D] to ``y`` [B], and whether the result is to be differentiated."""

    net: nn.Sequential
    x: Tensor
    y: Tensor
    create_graph: bool

    def value(self, x: Tensor) -> Tensor:
        """y of one sample [D], or of many [B, D]."""
        return self.net(x).squeeze(-1)


def nested_autograd(problem: Problem) -> Tensor:
    (gradient,) = torch.autograd.grad(problem.y.sum(), problem.x, create_graph=True)
    total = torch.zeros_like(problem.y)
    for d in range(problem.x.shape[1]):
        (row,) = torch.autograd.grad(
            gradient[:, d].sum(), problem.x, retain_graph=True, create_graph=problem.create_graph
        )
        total = total + row[:, d]
    return total


def ours(problem: Problem) -> Tensor:
    return laplacian(problem.y, problem.x, create_graph=problem.create_graph)


def ours_of_a_function(problem: Problem) -> Tensor:
    return laplacian(problem.value, problem.x.detach(), create_graph=problem.create_graph)


def ours_by_rows(problem: Problem) -> Tensor:
    return laplacian(problem.y, problem.x, mode="reverse", create_graph=problem.create_graph)


def trace_of_vmap_hessian(problem: Problem) -> Tensor:
    with torch.set_grad_enabled(problem.create_graph):
        blocks = torch.func.vmap(torch.func.hessian(problem.value))(problem.x.detach())
        return blocks.diagonal(dim1=1, dim2=2).sum(1)


def forward_over_reverse(problem: Problem) -> Tensor:
    def of_one(x: Tensor) -> Tensor:
        def entry(direction: Tensor) -> Tensor:
            _, curved = torch.func.jvp(torch.func.grad(problem.value), (x,), (direction,))  # type: ignore[misc]  # as with has_aux
            return (curved * direction).sum()

        return torch.func.vmap(entry)(torch.eye(len(x), device=x.device)).sum()

    with torch.set_grad_enabled(problem.create_graph):
        return torch.func.vmap(of_one)(problem.x.detach())


def written_by_hand(problem: Problem) -> Tensor:
    with torch.set_grad_enabled(problem.create_graph):
        value = problem.x.detach()
        first: Any = None
        second: Any = None
        for layer in problem.net:
            if isinstance(layer, nn.Linear):
                value, weight = layer(value), layer.weight.T
                first = weight[:, None] if first is None else first @ weight
                second = None if second is None else second @ weight
            else:
                value = value.tanh()
                slope = 1 - value.square()
                bent = -2 * value * slope * first.square().sum(0)
                second = bent if second is None else slope * second + bent
                first = slope * first
        return second.squeeze(-1)


WAYS: dict[str, Callable[[Problem], Tensor]] = {
    "gw.laplacian": ours,
    "gw.laplacian of a function": ours_of_a_function,
    "gw.laplacian, reverse": ours_by_rows,
    "nested autograd": nested_autograd,
    "vmap(hessian), trace": trace_of_vmap_hessian,
    "forward over reverse": forward_over_reverse,
    "written by hand": written_by_hand,
}


def job(way: Callable[[Problem], Tensor], problem: Problem) -> Tensor | tuple[Tensor | None, ...]:
    found = way(problem)
    if not problem.create_graph:
        return found
    return torch.autograd.grad(
        found.square().mean(), list(problem.net.parameters()), retain_graph=True, allow_unused=True
    )


def measure(problem: Problem, rounds: int, device: torch.device) -> dict[str, dict[str, object]]:
    truth = nested_autograd(problem).detach()
    for name, way in WAYS.items():
        off = (way(problem).detach() - truth).abs().max() / truth.abs().max()
        assert off < 1e-4, f"{name} is off by {off:.1e}"
    took: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(rounds + 1):
        for name, way in WAYS.items():
            spent = seconds(partial(job, way, problem), device)
            if turn:
                took[name].append(spent)
    base = took["nested autograd"]
    return {
        name: {
            "ms": round(statistics.median(took[name]) * 1e3, 2),
            "of_nested": round(statistics.median(a / b for a, b in zip(took[name], base, strict=True)), 2),
            "peak_MiB": round(peak_bytes(partial(job, way, problem), device) / 2**20, 1),
        }
        for name, way in WAYS.items()
    }


def problem_of(width: int, create_graph: bool, device: torch.device) -> Problem:
    torch.manual_seed(0)
    sizes = [width, WIDTH, WIDTH, WIDTH]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    net = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(device)
    x = torch.randn(SAMPLES, width, device=device, requires_grad=True)
    return Problem(net, x, net(x).squeeze(-1), create_graph)


def main() -> None:
    setting = read_setting(__doc__, rounds=15, quick=2)
    tables: dict[str, dict[str, dict[str, object]]] = {}
    for width in (3, 10, 50):
        for create_graph in (False, True):
            title = f"D={width}, " + ("differentiable, with a loss and its gradients" if create_graph else "plain")
            tables[title] = measure(problem_of(width, create_graph, setting.device), setting.rounds, setting.device)
            print(f"\n{title}")
            for way, row in tables[title].items():
                print(f"  {way:28}{row['ms']:10} ms  {row['of_nested']:8} x  {row['peak_MiB']:8} MiB")
    results = {
        title: {
            "nested_autograd_ms": rows["nested autograd"]["ms"],
            "ours_ms": rows["gw.laplacian"]["ms"],
            "ours_of_nested": rows["gw.laplacian"]["of_nested"],
            "by_hand_of_nested": rows["written by hand"]["of_nested"],
            "nested_MiB": rows["nested autograd"]["peak_MiB"],
            "ours_MiB": rows["gw.laplacian"]["peak_MiB"],
        }
        for title, rows in tables.items()
    }
    notes = [
        f"MLP D -> {WIDTH} -> {WIDTH} -> {WIDTH} -> 1, tanh, B = {SAMPLES}, float32; on a CPU one thread; medians.",
        "`of nested`: the time over nested autograd's; the aim is 0.5 at D = 50, differentiable.",
    ]
    if setting.save:
        save(
            "how_fast_is_a_laplacian",
            {"machine": machine_of(setting.device), "results": results, "tables": tables, "notes": notes},
        )


if __name__ == "__main__":
    main()
