"""How fast is a formula, value and gradient, beside torch, a Function written by hand, torch.compile, JAX and memory?

Twelve formulas (formulas/subjects.py), forward and backward. A loss is averaged and differentiated by its first input;
an activation keeps its shape and meets a full cotangent. Ways:

- ours: ``gw.elementwise``; its ``plan()`` stands in the JSON beside every row
- eager: torch's operations, one after the other · hand: an autograd.Function that keeps the slope of its forward
- library: torch's own operator, where there is one · compile: torch.compile of the eager code, in steady state · jax:
  ``jax.jit`` of value and gradient at once
- floor: what has to be read and written once, done by torch operations that compute next to nothing (a copy, a sum, an
  addcmul of as many tensors), into memory that is taken and given back as everybody's is, plus an empty
  autograd.Function, forward and backward. exp: one torch.exp over the first input, the same way

Rows "by size" are contiguous float32, the loss as it is (upstream gradient 1). "Other cells" have 1e6 elements: an
upstream gradient that is not 1 (seen for the second time, as in accumulation), strided inputs, bfloat16, a weight, a
mask. In every round each way runs once, in turn; the figure is the median over rounds of the CPU time of one thread,
a ratio is the median of the rounds' ratios to ours. The first rounds are not counted. Every way's gradient is compared
with float64's.

``--memory-kept`` runs it again with the environment variables that make glibc keep what is freed (what
``gw.retain_freed_memory()`` does to a running process): page faults are then nobody's.

    python benchmarks/how_fast_is_a_formula.py [--device cuda] [--memory-kept] [--rounds 15] [--quick] [--no-save]
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from formulas.subjects import Subject, by_hand, subjects
from on_device import Setting, machine_of, now, read_setting
from recording import save
from torch import Tensor

import gradwright as gw

try:
    import jax
except ImportError:  # a peer, in an environment of its own: tests/real/requirements.txt
    jax = None

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
WAYS = ("eager", "hand", "library", "compile", "jax", "floor", "exp")
CELLS = ("upstream 0.37", "strided", "bfloat16", "weighted", "masked")


@dataclass(frozen=True)
class Task:
    """One cell of the table: a formula on inputs."""

    subject: Subject
    cell: str
    inputs: tuple[Tensor, ...]
    cotangent: Tensor  # of the loss (a number), or of the whole activation
    extra: dict[str, Tensor]  # a weight or a mask

    @property
    def numbers(self) -> tuple[float, ...]:
        return tuple(self.subject.numbers.values())


def task_of(subject: Subject, size: int, cell: str, device: torch.device) -> Task:
    generator = torch.Generator(device).manual_seed(size)
    count = 2 * size if cell == "strided" else size
    drawn = [torch.randn(count, generator=generator, device=device) * 2 for _ in subject.inputs]
    if subject.probabilities:
        drawn[1] = torch.rand(count, generator=generator, device=device)
    if cell == "bfloat16":
        drawn = [tensor.bfloat16() for tensor in drawn]
    inputs = [tensor[:: 2 if cell == "strided" else 1] for tensor in drawn]
    inputs[0].requires_grad_()
    upstream = 0.37 if cell == "upstream 0.37" else 1.0
    shape = () if subject.is_loss else (size,)
    cotangent = torch.full(shape, upstream, dtype=inputs[0].dtype, device=device)
    if not subject.is_loss:
        cotangent = (torch.rand(size, generator=generator, device=device) + 0.5).to(inputs[0].dtype)
    extra = {}
    if cell == "weighted":
        extra["weight"] = torch.rand(size, generator=generator, device=device)
    if cell == "masked":
        extra["mask"] = torch.rand(size, generator=generator, device=device) < 0.7
    return Task(subject, cell, tuple(inputs), cotangent, extra)


def _reduced(task: Task, values: Tensor) -> Tensor:
    """As plain torch code averages a loss."""
    if "weight" in task.extra:
        values = values * task.extra["weight"]
        return values.sum() / task.extra["weight"].sum() if task.subject.is_loss else values
    if "mask" in task.extra:
        values = torch.where(task.extra["mask"], values, 0)
        return values.sum() / task.extra["mask"].sum() if task.subject.is_loss else values
    return values.mean() if task.subject.is_loss else values


def ways_of(task: Task, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """Each way as a call that returns the gradient by the first input."""
    subject, inputs = task.subject, task.inputs
    ours = gw.elementwise(subject.text, reduction="mean" if subject.is_loss else "none")
    named = dict(zip(subject.inputs, inputs, strict=True)) | dict(subject.numbers) | task.extra

    def pulled(out: Tensor) -> Tensor:
        return torch.autograd.grad(out, inputs[0], task.cotangent)[0]

    def eager(*tensors: Tensor) -> Tensor:
        return _reduced(task, subject.eager(*tensors, *task.numbers))

    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: pulled(ours(**named)),
        "eager": lambda: pulled(eager(*inputs)),
    }
    if not task.extra:
        hand = by_hand(subject)
        ways["hand"] = lambda: pulled(hand(*inputs, *task.numbers))
        if (library := subject.library) is not None:
            ways["library"] = lambda: pulled(library(*inputs, *task.numbers))
    if compiled:
        torch._dynamo.reset()
        faster = torch.compile(eager, dynamic=False)
        ways["compile"] = lambda: pulled(faster(*inputs))
    if jax is not None and task.cell != "strided" and inputs[0].device.type == "cpu":
        ways["jax"] = jax_way(task)
    ways["floor"] = floor_of(task)
    leaf = inputs[0].detach()
    ways["exp"] = lambda: torch.exp(leaf)
    return ways


def jax_way(task: Task) -> Callable[[], Any]:
    subject = task.subject
    arrays = [jax.numpy.asarray(tensor.detach().float().numpy()) for tensor in task.inputs]
    extra = {name: jax.numpy.asarray(tensor.numpy()) for name, tensor in task.extra.items()}
    cotangent = jax.numpy.asarray(task.cotangent.float().numpy())
    if task.cell == "bfloat16":
        arrays = [array.astype(jax.numpy.bfloat16) for array in arrays]
        cotangent = cotangent.astype(jax.numpy.bfloat16)

    def value(extra: dict[str, Any], *tensors: Any) -> Any:
        values = subject.jax(*tensors, *task.numbers)
        if "weight" in extra:
            values = values * extra["weight"]
            return values.sum() / extra["weight"].sum() if subject.is_loss else values
        if "mask" in extra:
            values = jax.numpy.where(extra["mask"], values, 0)
            return values.sum() / extra["mask"].sum() if subject.is_loss else values
        return values.mean() if subject.is_loss else values

    @jax.jit
    def both(upstream: Any, extra: dict[str, Any], first: Any, *rest: Any) -> Any:
        out, pull = jax.vjp(lambda x: value(extra, x, *rest), first)
        return out, pull(upstream)[0]

    return lambda: jax.block_until_ready(both(cotangent, extra, *arrays))


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.new_empty(())

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> None:
        return None


def floor_of(task: Task) -> Callable[[], Any]:
    """Each input (and weight, mask, cotangent) read once, each result written once, and an empty Function."""
    read = [tensor.detach() for tensor in task.inputs] + list(task.extra.values())
    one = torch.ones((), requires_grad=True)

    def loss() -> Any:
        Empty.apply(one).backward()
        if len(read) == 1:
            return read[0].clone()
        if len(read) == 2:
            return torch.add(read[0], read[1])
        if read[2].dtype == torch.bool:
            return torch.add(read[0], read[1]), read[2].clone()
        return torch.addcmul(read[0], read[1], read[2])

    def activation() -> Any:
        Empty.apply(one).backward()
        if task.cell == "masked":
            return read[0].clone(), read[1].clone(), task.cotangent.clone()
        return read[0].clone() if len(read) == 1 else read[0] * read[1], task.cotangent.clone()

    return loss if task.subject.is_loss else activation


def truth_of(task: Task) -> Tensor:
    exact = [tensor.detach().double() for tensor in task.inputs]
    exact[0].requires_grad_()
    out = _reduced(task, task.subject.eager(*exact, *task.numbers))
    return torch.autograd.grad(out, exact[0], task.cotangent.double())[0]


def measured(task: Task, setting: Setting, *, compiled: bool) -> dict[str, Any]:
    """Medians in microseconds, ratios to ours, the plan, and the worst error relative to the largest slope."""
    ways = ways_of(task, compiled=compiled)
    truth = truth_of(task)
    for name, way in ways.items():
        if name in ("floor", "exp"):
            continue
        found = way()
        found = torch.utils.dlpack.from_dlpack(found[1]) if name == "jax" else found
        tolerance = 1e-5 if task.cell != "bfloat16" else 0.02 if name == "ours" else 0.2
        error = ((found.double() - truth).abs().max() / truth.abs().max()).item()
        assert error < tolerance or name == "jax", (task.subject.name, task.cell, name, error)
    size = task.inputs[0].numel()
    repeats = max(1, min(200, 300_000 // size))
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(setting.rounds + 2):
        for name, way in ways.items():
            start = now(setting.device)
            for _ in range(repeats):
                way()
            if turn >= 2:
                rounds[name].append((now(setting.device) - start) / repeats)
    figures: dict[str, Any] = {"us": {name: round(1e6 * statistics.median(taken), 1) for name, taken in rounds.items()}}
    figures["of ours"] = {
        name: round(statistics.median(a / b for a, b in zip(taken, rounds["ours"], strict=True)), 3)
        for name, taken in rounds.items()
    }
    named = dict(zip(task.subject.inputs, task.inputs, strict=True)) | dict(task.subject.numbers) | task.extra
    ours = gw.elementwise(task.subject.text, reduction="mean" if task.subject.is_loss else "none")
    return figures | {"plan": str(ours.plan(**named))}


def row_of(figures: dict[str, Any]) -> dict[str, Any]:
    """Times of ours in us; of the others, how many times ours; of the floor and of exp, how many of them ours is."""
    ratios = figures["of ours"]
    row: dict[str, Any] = {"ours_us": figures["us"]["ours"]}
    for name in WAYS[:-2]:
        row[name] = f"{ratios[name]:.2f}" if name in ratios else "-"
    return row | {"ours_in_floors": round(1 / ratios["floor"], 2), "ours_in_exps": round(1 / ratios["exp"], 2)}


def main() -> None:
    if "--memory-kept" in sys.argv:
        sys.argv.remove("--memory-kept")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEPT})
    setting = read_setting(__doc__, rounds=15, quick=5, told=", three sizes, no torch.compile")
    if setting.device.type == "cpu":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # JAX has threads of its own
    by_size, by_cell, details = {}, {}, {}
    for subject in subjects():
        for size in (1_000, 1_000_000, 10_000_000) if setting.quick else SIZES:
            task = task_of(subject, size, "", setting.device)
            details[f"{subject.name}, {size:.0e}"] = figures = measured(task, setting, compiled=not setting.quick)
            by_size[f"{subject.name} ({subject.limit}), {size:.0e}"] = row_of(figures)
            print(subject.name, f"{size:.0e}", row_of(figures), flush=True)
        for cell in CELLS:
            if cell == "upstream 0.37" and not subject.is_loss:
                continue
            task = task_of(subject, 1_000_000, cell, setting.device)
            details[f"{subject.name}, {cell}"] = figures = measured(task, setting, compiled=not setting.quick)
            by_cell[f"{subject.name}, {cell}"] = row_of(figures)
            print(subject.name, cell, row_of(figures), flush=True)
    kept = all(name in os.environ for name in KEPT)
    if setting.save:
        save(
            "how_fast_is_a_formula" + ("_with_memory_kept" if kept else ""),
            {
                "machine": machine_of(setting.device),
                "results": by_size,
                "tables": {"Other cells, 1e6 elements": by_cell},
                "notes": notes(by_size),
                "details": details,
            },
        )


def notes(rows: dict[str, dict[str, Any]]) -> list[str]:
    """How far the aims are met."""
    large = {name: row for name, row in rows.items() if name.endswith(("1e+06", "1e+07"))}
    memory = {name: row["ours_in_floors"] for name, row in large.items() if "(memory)" in name}
    one_exp = {name: row["ours_in_exps"] for name, row in large.items() if "(exp" in name}
    compiled = {name: float(row["compile"]) for name, row in rows.items() if row["compile"] != "-"}
    told = [
        "Eager to jax: their time as a multiple of ours. In floors, in exps: ours as a multiple of those.",
        _aim("arithmetic formulas within 1.3 floors from 1e6 on", memory, lambda ratio: ratio <= 1.3),
        _aim("formulas with one exp within 1.3 torch.exp from 1e6 on", one_exp, lambda ratio: ratio <= 1.3),
    ]
    if compiled:
        told.append(_aim("torch.compile at least 0.95 of ours", compiled, lambda ratio: ratio >= 0.95))
    return told


def _aim(told: str, ratios: dict[str, float], holds: Callable[[float], bool]) -> str:
    missed = [f"{name} {ratio}" for name, ratio in ratios.items() if not holds(ratio)]
    middle = statistics.median(ratios.values()) if ratios else math.nan
    return (
        f"Aim: {told}: {len(ratios) - len(missed)} of {len(ratios)}, median {middle:.2f}"
        + (f"; missed by {'; '.join(missed)}" if missed else "")
        + "."
    )


if __name__ == "__main__":
    main()
