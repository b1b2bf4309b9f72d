"""``gw.batch_jacobian`` of 1024 samples beside other ways: rows of ``which_batch_jacobian_is_fastest.py``.

Columns as there, and: torch.compile of ``vmap(jacrev)``, for one network; ``copy_ms``, what reading the inputs and
writing the Jacobian takes at the speed of the device's copy. Each way is checked against the sum trick in float64.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
import which_batch_jacobian_is_fastest as benchmark

from gradwright.derivatives.planning.plan import plan
from on_gpu.comparing import Comparison, Way, compare
from on_gpu.figure import Figure, Machine

OURS, COMPILED = "gw.batch_jacobian", "compile of vmap(jacrev)"
TOLERANCE = 1e-4  # of the largest element, as on the CPU
#: Inputs, outputs, is it differentiated; the most usual first.
NETWORKS = ((32, 16, False), (32, 16, True), (2, 2, False), (2, 2, True), (256, 64, False), (2, 64, False))
COMPILED_NETWORK = NETWORKS[0]


def measure(columns: int, rows: int, create_graph: bool, machine: Machine) -> dict[str, Any]:
    problem = benchmark.problem_of(columns, rows, create_graph, machine.device)
    ways = {
        name: Way(partial(benchmark.job, way, problem))
        for name, way in benchmark.WAYS.items()
        if name != "functional.jacobian"  # it goes back once for each sample: seconds
    }
    if (columns, rows, create_graph) == COMPILED_NETWORK and not machine.is_small:
        torch._dynamo.reset()
        ways[COMPILED] = Way(compiled(problem))
    found = compare(ways, machine, ours=OURS, truth=[truth_of(problem)], tolerance=TOLERANCE)
    return found.finish(_cells(problem, found, machine))


def compiled(problem: benchmark.Problem) -> Any:
    whole = torch.compile(torch.func.vmap(torch.func.jacrev(problem.net)), dynamic=False)
    z = problem.z.detach()

    def call() -> torch.Tensor:
        with torch.no_grad():
            return whole(z)

    return call


def truth_of(problem: benchmark.Problem) -> torch.Tensor:
    """The Jacobian in float64."""
    net = copy.deepcopy(problem.net).double()
    z = problem.z.detach().double().requires_grad_()
    return benchmark.sum_trick(benchmark.Problem(net, z, net(z), create_graph=False))


def _cells(problem: benchmark.Problem, found: Comparison, machine: Machine) -> dict[str, Any]:
    try:
        choice = plan(problem.y, problem.z, create_graph=problem.create_graph).choice
    except Exception as error:  # ours broke: the note of its own way says so
        choice = type(error).__name__
    same = "gw, forward" if choice.startswith(("pushed", "double vjp")) else "gw, reverse"
    others = [name for name in found.seconds if name not in (OURS, same)]
    best = min(others, key=found.seconds.__getitem__) if others else ""
    cells: dict[str, Any] = {
        "ratio": round(1 / found.of_ours[best], 2) if best in found.of_ours else "-",
        "best": best,
        "ours_took": choice,
    }
    for name in (*benchmark.WAYS, COMPILED):
        if name != "functional.jacobian":
            took = found.seconds.get(name)
            cells[f"{name}, ms"] = round(1e3 * took, 3) if took else found.ratio(name)
    samples, inputs = problem.z.shape
    size = problem.z.element_size() * samples * (inputs + inputs * problem.y.shape[1])
    return cells | {
        "ours_spread": found.spread_of_ours(),
        "copy_ms": float(f"{1e3 * machine.copy_seconds(size):.3g}"),
        "warm-up_s": round(found.first_seconds[COMPILED], 1) if COMPILED in found.seconds else "-",
        "ours_MiB": found.mebibytes(OURS),
        "best_MiB": found.mebibytes(best),
    }


def list_figures(*, is_small: bool) -> list[Figure]:
    return [
        Figure(
            "which_batch_jacobian_is_fastest",
            "",
            benchmark.title_of(*network),
            partial(measure, *network),
        )
        for network in (NETWORKS[2:3] if is_small else NETWORKS)
    ]
