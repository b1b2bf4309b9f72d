"""How fast is a training step with derivatives?

Whole steps (zero_grad, loss, backward, Adam) whose loss holds derivatives of the network, each as its authors' code has
it and with Gradwright: physics-informed networks, the critic of a WGAN-GP, continuous normalizing flows; see steps/.
All ways of a task give the same loss and gradients (asserted, from the same parameters). One process, the ways in turn,
medians; `times ours` is the median of the ratios within a turn, above 1 where ours is faster. Peak: bytes that the
step's tensors held at once, beyond what was there before. float32; on the CPU one thread, and the time it computed.

    python benchmarks/how_fast_is_a_training_step_with_derivatives.py [--device cuda] [--rounds 15] [--quick]
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from on_device import machine_of, peak_bytes, read_setting, seconds
from recording import save
from steps import critics, encoders, equations, flows
from steps.task import Task
from torch import Tensor, nn

QUESTION = "how_fast_is_a_training_step_with_derivatives"


def tasks(quick: bool, device: torch.device) -> Iterator[Task]:
    """Each is made when its turn comes, so that one at a time takes memory."""
    yield equations.burgers(500, device)
    if not quick:
        yield equations.burgers(10_000, device)
    yield equations.diffusion(500 if quick else 10_000, device)
    yield equations.navier_stokes(200 if quick else 2_000, device)
    yield critics.perceptron(device)
    if not quick:
        yield critics.convolutional(device)
    yield encoders.contractive(16 if quick else 128, device)
    yield flows.example_of_torchdiffeq(device)
    yield flows.ffjord(6, 60, 128 if quick else 1000, device, estimated=False)
    yield flows.ffjord(43, 64 if quick else 256, 32 if quick else 200, device, estimated=False)
    yield flows.ffjord(43, 64 if quick else 256, 32 if quick else 200, device, estimated=True)


def trained(way: Callable[[nn.Module], Tensor], model: nn.Module) -> tuple[Tensor, Tensor]:
    """The loss and all gradients, in float64 for the comparison's own arithmetic."""
    loss = way(model)
    gradients = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    return loss.detach().double(), torch.cat([gradient.flatten() for gradient in gradients]).double()


def assert_agreement(task: Task) -> None:
    usual, *others = task.ways
    loss, gradient = trained(task.ways[usual], task.model)
    for name in others:
        other, of_other = trained(task.ways[name], task.model)
        off = max(float((other - loss).abs() / loss.abs()), float((of_other - gradient).norm() / gradient.norm()))
        assert off < 1e-4, f"{task.name}: {name} is off {usual} by {off:.1e}"


def step(way: Callable[[nn.Module], Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    way(model).backward()
    optimizer.step()


def measure(task: Task, rounds: int, device: torch.device) -> dict[str, dict[str, object]]:
    steps = {}
    for name, way in task.ways.items():
        model = copy.deepcopy(task.model)
        steps[name] = partial(step, way, model, torch.optim.Adam(model.parameters(), lr=1e-5))
    for call in steps.values():  # warm
        seconds(call, device)
    took: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, call in steps.items():
            took[name].append(seconds(call, device))
    ours = took[task.ours[0]]
    return {
        f"{task.name}: {name}": {
            "ms": round(1e3 * statistics.median(took[name]), 2),
            "times_ours": round(statistics.median(one / our for one, our in zip(took[name], ours, strict=True)), 2),
            "peak_MiB": round(peak_bytes(steps[name], device) / 2**20, 1),
        }
        for name in steps
    }


def main() -> None:
    setting = read_setting(__doc__, rounds=15, quick=3, told=", small sizes, nothing saved")
    results: dict[str, dict[str, object]] = {}
    for task in tasks(setting.quick, setting.device):
        assert_agreement(task)
        rows = measure(task, setting.rounds, setting.device)
        results |= rows
        for name, row in rows.items():
            print(f"{name:75} {row['ms']:>9} ms {row['times_ours']:>6} x {row['peak_MiB']:>8} MiB", file=sys.stderr)
    if setting.save and not setting.quick:
        told = {"threads": 1, "rounds": setting.rounds, "results": results, "notes": NOTES}
        save(QUESTION, {"machine": machine_of(setting.device), **told})


NOTES = [
    "nested, usual: as the authors' or the usual public code has it; shared by hand: the fewest backwards. "
    "times ours: how much longer than ours, median of the ratios within a turn. All ways give the same loss and "
    "gradients.",
    "The WGAN-GP critic's own way (one autograd.grad) is already the best there is, and so is FFJORD's Hutchinson "
    "estimate: there ours does the same work, and what it costs beside is the look whether samples meet.",
]


if __name__ == "__main__":
    main()
