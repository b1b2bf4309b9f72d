"""Which way to a batch Jacobian is fastest, and is it the one that gw.batch_jacobian takes?

y = net(z) of an MLP D -> 128 -> 128 -> K with tanh, B = 1024, float32; D in 2, 32, 256 and K in 2, 16, 64. Plain, and
differentiable, where the time includes a penalty on the Jacobian and the gradients of all parameters. The graph from z
to y exists; vmap(jacrev) and vmap(jacfwd) take a function, so they run the network again within their time. TorchJD's
``jac`` makes no graph, so it is in the plain rows only; ``functional.jacobian`` makes [B, K, B, D], so it is run
for K = 2 and D up to 32 only. The loop over samples and outputs is extrapolated from its
first twelve backwards. ``gw, reverse`` and ``gw, forward`` are ours held to one mode (the one it takes anyway is not
counted among the others).

In every round each way runs once, in an order of its own; the figure is the median over rounds. A way that takes ten
times as long as the quickest runs in two rounds only, one beyond a second and a half once. On a CPU it is the CPU time
of one thread. Every result is compared with the sum trick's. ``ratio``: ours by the best of all others, median of the
rounds' ratios. Aim: at most 1.15, the check that the batch is independent included. Peak bytes are those above what
stood before the call.

    python benchmarks/which_batch_jacobian_is_fastest.py [--device cuda] [--rounds 7] [--quick] [--no-save]

With ``.venv-peers/bin/python`` TorchJD is beside us.
"""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from on_device import machine_of, now, peak_bytes, read_setting, seconds
from recording import save
from torch import Tensor, nn

from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.planning.plan import plan

SAMPLES, WIDTH, LOOPED = 1024, 128, 12


@dataclass(frozen=True)
class Problem:
    """A network, the graph from ``z`` [B, D] to ``y`` [B, K], and whether the Jacobian is to be differentiated."""

    net: nn.Sequential
    z: Tensor
    y: Tensor
    create_graph: bool

    def pull(self, output: Tensor, cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(output, self.z, cotangent, retain_graph=True, create_graph=self.create_graph)[0]

    def rows(self) -> Tensor:
        return torch.eye(self.y.shape[1], device=self.y.device)


def sum_trick(problem: Problem) -> Tensor:
    one = torch.ones((), device=problem.z.device)
    return torch.stack([problem.pull(problem.y[:, k].sum(), one) for k in range(problem.y.shape[1])], 1)


def legacy(problem: Problem) -> Tensor:
    rows = problem.rows()[:, None].expand(-1, *problem.y.shape)
    return torch.autograd.grad(
        problem.y, problem.z, rows, retain_graph=True, create_graph=problem.create_graph, is_grads_batched=True
    )[0].transpose(0, 1)


def vmap_of_grad(problem: Problem, chunk: int | None = None) -> Tensor:
    def row(one: Tensor) -> Tensor:
        return problem.pull(problem.y, one.expand_as(problem.y))

    return torch.func.vmap(row, chunk_size=chunk)(problem.rows()).transpose(0, 1)


def of_the_function(transform: Callable[..., Callable[[Tensor], Tensor]], problem: Problem) -> Tensor:
    with torch.set_grad_enabled(problem.create_graph):
        return torch.func.vmap(transform(problem.net))(problem.z.detach())


def double_vjp(problem: Problem) -> Tensor:
    v = torch.zeros_like(problem.y, requires_grad=True)
    (pulled,) = torch.autograd.grad(problem.y, problem.z, v, create_graph=True)
    tangents = torch.eye(problem.z.shape[1], device=v.device)
    columns = [
        torch.autograd.grad(pulled, v, one.expand_as(problem.z), retain_graph=True, create_graph=problem.create_graph)[
            0
        ]
        for one in tangents
    ]
    return torch.stack(columns, 2)


def gw(problem: Problem, mode: Literal["auto", "reverse", "forward"] = "auto") -> Tensor:
    return batch_jacobian(problem.y, problem.z, mode=mode, create_graph=problem.create_graph)


def functional_jacobian(problem: Problem) -> Tensor:
    """Every output of every sample against every sample's input, [B, K, B, D], of which the blocks b, b are wanted."""
    blocks: Tensor = torch.autograd.functional.jacobian(problem.net, problem.z.detach())
    return blocks.diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def torchjd(problem: Problem) -> Tensor:
    from torchjd.autojac import jac

    return jac(problem.y.sum(0), problem.z, retain_graph=True)[0].transpose(0, 1)


WAYS: dict[str, Callable[[Problem], Tensor]] = {
    "gw.batch_jacobian": gw,
    "gw, reverse": partial(gw, mode="reverse"),
    "gw, forward": partial(gw, mode="forward"),
    "sum trick": sum_trick,
    "double vjp": double_vjp,
    "vmap of grad": vmap_of_grad,
    "vmap of grad, 2 at a time": partial(vmap_of_grad, chunk=2),
    "is_grads_batched": legacy,
    "vmap(jacrev)": partial(of_the_function, torch.func.jacrev),
    "vmap(jacfwd)": partial(of_the_function, torch.func.jacfwd),
    "functional.jacobian": functional_jacobian,
}

#: Outputs up to which ``functional.jacobian`` is run (K = 2): it goes back once for each, and keeps [B, K, B, D].
WHOLE = 2048


def job(way: Callable[[Problem], Tensor], problem: Problem) -> Tensor:
    """The Jacobian, and where it is differentiable a penalty's gradients."""
    found = way(problem)
    if problem.create_graph:
        penalty = (found.square().sum((1, 2)).sqrt() - 1).square().mean()
        torch.autograd.grad(penalty, list(problem.net.parameters()), retain_graph=True, allow_unused=True)
    return found.detach()


def looped(problem: Problem) -> float:
    """Seconds of the loop over samples and outputs, from its first backwards."""
    start = now(problem.z.device)
    rows = [torch.autograd.grad(problem.y[b, 0], problem.z, retain_graph=True, create_graph=problem.create_graph)[0][b]
            for b in range(LOOPED)]  # fmt: skip
    if problem.create_graph:
        penalty = torch.stack(rows).square().sum()
        torch.autograd.grad(penalty, list(problem.net.parameters()), retain_graph=True, allow_unused=True)
    return (now(problem.z.device) - start) * problem.y.numel() / LOOPED


def measure(problem: Problem, rounds: int, device: torch.device) -> dict[str, object]:
    left_out = {"TorchJD jac", "functional.jacobian"} if problem.create_graph else set()
    if problem.y.numel() > WHOLE or problem.z.shape[1] > 32:
        left_out.add("functional.jacobian")
    ways = {name: way for name, way in WAYS.items() if name not in left_out}
    truth = sum_trick(problem).detach()
    took: dict[str, list[float]] = {}
    for name, way in ways.items():
        off = (job(way, problem) - truth).abs().max() / truth.abs().max()
        assert off < 1e-4, f"{name} is off by {off:.1e}"
        took[name] = [seconds(partial(job, way, problem), device)]
    best = min(times[0] for times in took.values())
    for turn in range(rounds):
        order = list(ways.items())
        random.Random(turn).shuffle(order)  # who comes after whom matters: memory that was let go is quick to get
        for name, way in order:
            first = took[name][0]
            if first < 1.5 and (turn < 2 or first < 10 * best):
                took[name].append(seconds(partial(job, way, problem), device))
    medians = {name: statistics.median(times[1:] or times) for name, times in took.items()}
    choice = plan(problem.y, problem.z, create_graph=problem.create_graph).choice
    same = "gw, forward" if choice.startswith(("pushed", "double vjp")) else "gw, reverse"
    others = [name for name in ways if name not in ("gw.batch_jacobian", same)]
    leader = min(others, key=medians.__getitem__)
    pairs = list(zip(took["gw.batch_jacobian"], took[leader], strict=False))[1:]
    row: dict[str, object] = {
        "ratio": round(statistics.median(a / b for a, b in pairs), 2),
        "best": leader,
        "ours_took": choice,
    }
    row |= {f"{name}, ms": round(middle * 1e3, 2) for name, middle in medians.items()}
    row["loop, ms (extrapolated)"] = round(looped(problem) * 1e3)
    for name in ("gw.batch_jacobian", leader):
        row["ours_MiB" if name != leader else "best_MiB"] = round(
            peak_bytes(partial(job, ways[name], problem), device) / 2**20, 1
        )
    return row


def problem_of(columns: int, rows: int, create_graph: bool, device: torch.device) -> Problem:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(columns, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, rows)
    ).to(device)
    z = torch.randn(SAMPLES, columns, device=device, requires_grad=True)
    return Problem(net, z, net(z), create_graph)


def title_of(columns: int, rows: int, create_graph: bool) -> str:
    return f"D={columns}, K={rows}, " + ("with a penalty and its gradients" if create_graph else "plain")


def main() -> None:
    setting = read_setting(__doc__, rounds=7, quick=2)
    with contextlib.suppress(ImportError):
        import torchjd as _  # noqa: F401

        WAYS["TorchJD jac"] = torchjd
    results: dict[str, dict[str, object]] = {}
    for create_graph in (False, True):
        for columns in (2, 32, 256):
            for rows in (2, 16, 64):
                title = title_of(columns, rows, create_graph)
                problem = problem_of(columns, rows, create_graph, setting.device)
                results[title] = measure(problem, setting.rounds, setting.device)
                row = results[title]
                print(
                    f"{title:50} ratio {row['ratio']:5}  best {row['best']:26} ours took {row['ours_took']:12}",
                    flush=True,
                )
                print("    " + "  ".join(f"{name[:-4]} {ms}" for name, ms in row.items() if name.endswith(", ms")))
    if setting.save:
        save("which_batch_jacobian_is_fastest", {"machine": machine_of(setting.device), "results": named(results)})


def named(results: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Every row with every column, in one order; "" where a way was not run."""
    columns = list(dict.fromkeys(column for row in results.values() for column in row))
    return {title: {column: row.get(column, "") for column in columns} for title, row in results.items()}


if __name__ == "__main__":
    main()
