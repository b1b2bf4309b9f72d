"""How fast is a Jacobian whose sparsity the graph shows, beside the ways that don't look at it?

Three networks on grids, float32: a convolutional stencil (two layers, kernel 3, so each output reaches 5 of 64
inputs); a five-point stencil in two dimensions made with slices, with a learned reaction, on 16 x 16; the residual of
a finite-difference scheme, u[2:] - 2 u[1:-1] + u[:-2] with a learned nonlinear term, 64 points. Each as a plain
Jacobian, and with create_graph, where the time includes a penalty (the sum of its squares) and all parameters'
gradients.

The graph exists; ``vmap(jacrev)`` and ``functional.jacobian`` can't use it and run the network again.
``gw.batch_jacobian`` is called as a user does (no sparsity given: it is found, proved and coloured within the time).
In every round each way runs once, in turn; the figure is the median over rounds, the ratio the median of the rounds'
ratios to ours. The first round is not counted. On a CPU it is the CPU time of one thread. Every
result is compared with the sum trick's. Peak bytes are those above what stood before the call. The aim: a fifth of
the sum trick's time, with create_graph, on the convolutional stencil.

    python benchmarks/how_fast_is_a_coloured_jacobian.py [--device cuda] [--rounds 9] [--quick] [--no-save]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from on_device import machine_of, peak_bytes, read_setting, seconds
from recording import save
from torch import Tensor, nn

import gradwright as gw

try:
    from torchjd.autojac import jac as torchjd_jac
except ImportError:  # a peer, in an environment of its own: tests/real/requirements.txt
    torchjd_jac = None


class Stencil(nn.Module):
    """A convolutional network that reaches two to either side."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.inner, self.outer = nn.Conv1d(1, width, 3, padding=1), nn.Conv1d(width, 1, 3, padding=1)

    def forward(self, u: Tensor) -> Tensor:
        return self.outer(self.inner(u[..., None, :]).tanh())[..., 0, :]


class FivePoint(nn.Module):
    """k (u_e + u_w + u_n + u_s - 4 u) + r(u), with a learned k and a learned reaction r."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.tensor(0.3))
        self.inner, self.outer = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width) / width)

    def forward(self, u: Tensor) -> Tensor:
        middle = u[..., 1:-1, 1:-1]
        laplacian = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2] - 4 * middle
        return self.k * laplacian + ((middle[..., None] * self.inner).tanh() * self.outer).sum(-1)


class Differences(nn.Module):
    """The residual a (u[2:] - 2 u[1:-1] + u[:-2]) - sin(b u) of a boundary value problem."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(0.7))

    def forward(self, u: Tensor) -> Tensor:
        return self.a * (u[..., 2:] - 2 * u[..., 1:-1] + u[..., :-2]) - (self.b * u[..., 1:-1]).sin()


@dataclass(frozen=True)
class Problem:
    """A network with a graph from ``z`` to ``y``, [B, *K] and [B, *D]."""

    net: nn.Module
    z: Tensor
    y: Tensor
    create_graph: bool

    @property
    def rows(self) -> int:
        return self.y[0].numel()

    def blocks(self, jacobian: Tensor) -> Tensor:
        return jacobian.reshape(len(self.y), self.rows, -1)


def ours(problem: Problem) -> Tensor:
    return gw.batch_jacobian(problem.y, wrt=problem.z, create_graph=problem.create_graph)


def sum_trick(problem: Problem) -> Tensor:
    flat = problem.y.flatten(1)
    rows = [
        torch.autograd.grad(flat[:, k].sum(), problem.z, retain_graph=True, create_graph=problem.create_graph)[0]
        for k in range(problem.rows)
    ]
    return torch.stack(rows, 1)


def vmap_of_grad(problem: Problem) -> Tensor:
    flat = problem.y.flatten(1)
    unit = torch.eye(problem.rows, device=flat.device)

    def row(cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(
            flat, problem.z, cotangent.expand(flat.shape), retain_graph=True, create_graph=problem.create_graph
        )[0]

    return torch.func.vmap(row)(unit).movedim(0, 1)


def vmap_of_jacrev(problem: Problem) -> Tensor:
    return torch.func.vmap(torch.func.jacrev(problem.net))(problem.z)


def vmap_of_jacfwd(problem: Problem) -> Tensor:
    return torch.func.vmap(torch.func.jacfwd(problem.net))(problem.z)


def functional_jacobian(problem: Problem) -> Tensor:
    def summed(z: Tensor) -> Tensor:
        return problem.net(z).flatten(1).sum(0)

    found = torch.autograd.functional.jacobian(
        summed, problem.z, create_graph=problem.create_graph, vectorize=not problem.create_graph
    )
    return found.movedim(0, 1)


def torchjd(problem: Problem) -> Tensor:
    (found,) = torchjd_jac(problem.y.flatten(1).sum(0), problem.z, retain_graph=True)
    return found.movedim(0, 1)


WAYS: dict[str, Callable[[Problem], Tensor]] = {
    "gw.batch_jacobian": ours,
    "sum trick": sum_trick,
    "vmap of autograd.grad": vmap_of_grad,
    "vmap(jacrev)": vmap_of_jacrev,
    "vmap(jacfwd)": vmap_of_jacfwd,
    "functional.jacobian": functional_jacobian,
    **({"TorchJD jac": torchjd} if torchjd_jac is not None else {}),
}

#: TorchJD makes no graph of its Jacobians.
WITHOUT_GRAPH = {"TorchJD jac"}

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutional stencil, N=64": (Stencil, (128, 64)),
    "five-point stencil, 16 x 16": (FivePoint, (32, 16, 16)),
    "finite differences, N=64": (Differences, (256, 64)),
}


def job(way: Callable[[Problem], Tensor], problem: Problem) -> Tensor | tuple[Tensor | None, ...]:
    jacobian = way(problem)
    if not problem.create_graph:
        return jacobian
    return torch.autograd.grad(
        jacobian.square().sum(), list(problem.net.parameters()), retain_graph=True, allow_unused=True
    )


def measure(problem: Problem, rounds: int, device: torch.device) -> dict[str, dict[str, object]]:
    ways = {name: way for name, way in WAYS.items() if not (problem.create_graph and name in WITHOUT_GRAPH)}
    truth = problem.blocks(sum_trick(problem)).detach()
    for name, way in ways.items():
        off = (problem.blocks(way(problem)).detach() - truth).abs().max() / truth.abs().max()
        assert off < 1e-5, f"{name} is off by {off:.1e}"
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            spent = seconds(partial(job, way, problem), device)
            if turn:
                took[name].append(spent)
    base = took["gw.batch_jacobian"]
    return {
        name: {
            "ms": round(statistics.median(took[name]) * 1e3, 2),
            "times_ours": round(statistics.median(a / b for a, b in zip(took[name], base, strict=True)), 2),
            "peak_MiB": round(peak_bytes(partial(job, way, problem), device) / 2**20, 1),
        }
        for name, way in ways.items()
    }


def main() -> None:
    setting = read_setting(__doc__, rounds=9, quick=2)
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for name, (make, shape) in NETWORKS.items():
        for create_graph in (False, True):
            torch.manual_seed(0)
            net = make().to(setting.device)
            z = torch.randn(shape, device=setting.device, requires_grad=True)
            problem = Problem(net, z, net(z), create_graph)
            title = f"{name}, B={shape[0]}" + (", create_graph, with the penalty's gradients" if create_graph else "")
            tables[title] = measure(problem, setting.rounds, setting.device)
            print(f"\n{title}\n{gw.plan(problem.y, problem.z, create_graph=create_graph)}")
            for way, row in tables[title].items():
                print(f"  {way:24}{row['ms']:10} ms  {row['times_ours']:8} x  {row['peak_MiB']:8} MiB")
    results = {
        title: {
            "sum_trick_ms": rows["sum trick"]["ms"],
            "ours_ms": rows["gw.batch_jacobian"]["ms"],
            "times": rows["sum trick"]["times_ours"],
            "best_other": min((row["ms"], way) for way, row in rows.items() if way != "gw.batch_jacobian")[1],
            "times_best_other": min(row["times_ours"] for way, row in rows.items() if way != "gw.batch_jacobian"),
        }
        for title, rows in tables.items()
    }
    notes = ["One thread; medians; the sum trick's time divided by ours is `times`; the aim is 5 with create_graph."]
    if setting.save:
        save(
            "how_fast_is_a_coloured_jacobian",
            {"machine": machine_of(setting.device), "results": results, "tables": tables, "notes": notes},
        )


if __name__ == "__main__":
    main()
