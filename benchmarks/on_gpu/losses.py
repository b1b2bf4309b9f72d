"""Losses beside torch and Liger-Kernel: rows of ``how_fast_are_the_losses.py``.

Columns as there, and: ``Liger``; ``ours_first_s``, our first call; ``copy_us``, what must move (every tensor read once,
of Dice twice, every gradient written) at the speed of the device's copy; ``in_copies``, ours as a multiple of that;
``error``, ours, relative to the largest slope; ``backend``; MiB, what tensors held at once above the logits and labels.
``in_floors`` is held against as many bytes copied in the same rounds.

Liger-Kernel writes the gradient over the logits: it gets logits of its own, written anew before each call, untimed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from how_fast_are_the_losses import name_of
from losses_at_work import subjects
from losses_at_work.classification import cross_entropy_of
from losses_at_work.measuring import WRONG, Task, floor_bytes, floor_of, losses_of, step_of, task_of, truth_of
from losses_at_work.peers import liger_cross_entropy
from losses_at_work.subject import Subject

from gradwright import losses
from on_gpu.comparing import NOT_IN_A_DRY_RUN, Comparison, Way, compare
from on_gpu.figure import Figure, Machine

OTHERS = ("F", "naive", "torchvision", "compile", "Liger")
ROWS = 8192  # of logits
CLASSES = (32_768, 131_072)
IMAGES = ("dice, binary", "focal, binary", "dice, 8 classes")


def measure(subject: Subject, size: int, cell: str, is_compiled: bool, machine: Machine) -> dict[str, Any]:
    task = task_of(subject, size, cell, machine.device)
    ours = subject.loss(losses)
    functions = losses_of(task, ours)
    ways = {name: Way(step_of(task, function)) for name, function in functions.items() if name in ("ours", *OTHERS)}
    notes: dict[str, str] = {}
    if cell == "bfloat16":
        del ways["naive"]
        notes["naive"] = "rounds to bfloat16 after every step"
    if is_compiled and not machine.is_small:
        torch._dynamo.reset()
        ways["compile"] = Way(step_of(task, torch.compile(functions["naive"], dynamic=False)))
    else:
        notes["compile"] = NOT_IN_A_DRY_RUN if is_compiled else "not compiled for this row"
    if subject.name.startswith("cross entropy"):
        try:
            ways["Liger"] = liger_way(task)
        except Exception as error:  # not installed, or not for this device
            notes["Liger"] = f"{type(error).__name__}: {error}"
    ways["floor"] = Way(floor_of(task))
    tolerance = WRONG[task.tensors[0].dtype]
    found = compare(ways, machine, truth=truth_of(task), tolerance=tolerance, unchecked=("floor",))
    found.notes |= notes
    if "Liger" in found.seconds:
        found.notes["Liger"] = "writes the gradient over its logits, copied anew before each call, untimed"
    return found.finish(_cells(task, ours, found, machine))


def liger_way(task: Task) -> Way:
    """Liger-Kernel's cross entropy of a copy of the logits. Raises ImportError, where it is not installed."""
    theirs = liger_cross_entropy()
    if theirs is None:
        raise ImportError("liger_kernel is not installed")
    if task.tensors[0].device.type != "cuda":
        raise ImportError("its kernels are for a GPU")
    logits, target = task.tensors
    mine = logits.detach().clone().requires_grad_()

    def write_anew() -> None:
        with torch.no_grad():
            mine.copy_(logits)

    return Way(step_of(replace(task, tensors=(mine, target)), theirs), write_anew)


def _cells(task: Task, ours: Any, found: Comparison, machine: Machine) -> dict[str, Any]:
    took = found.seconds.get("ours")
    copied = machine.copy_seconds(floor_bytes(task))
    cells: dict[str, Any] = {
        "ours_us": f"{1e6 * took:.4g}" if took else found.ratio("ours"),
        "in_floors": f"{1 / found.of_ours['floor']:.2f}" if "floor" in found.of_ours else "-",
    }
    cells |= {name: found.ratio(name) for name in OTHERS}
    cells |= {
        "ours_spread": found.spread_of_ours(),
        "ours_first_s": f"{found.first_seconds['ours']:.2f}" if "ours" in found.first_seconds else "-",
        "warm-up_s": f"{found.first_seconds['compile']:.1f}" if "compile" in found.seconds else "-",
        "copy_us": f"{1e6 * copied:.4g}",
        "in_copies": f"{took / copied:.2f}" if took else "-",
        "error": f"{found.errors['ours']:.1e}" if "ours" in found.errors else "-",
        "backend": _backend(task, ours, found.notes),
    }
    return cells | {f"{name}_MiB": found.mebibytes(name) for name in ("ours", "F", "naive", "compile", "Liger")}


def _backend(task: Task, ours: Any, notes: dict[str, str]) -> str:
    """What ours runs on; a note, where some of it is plain torch."""
    try:
        plan = ours.plan(*task.tensors)
    except Exception as error:  # ours broke: the note of its own way says so
        return f"{type(error).__name__}"
    if plan.is_fallback:
        notes["backend"] = plan.why
    return f"{plan.backend}, in part torch" if plan.is_fallback and plan.backend != "torch" else plan.backend


def list_cross_entropies(*, is_small: bool, cell: str = "", is_compiled: bool = True) -> list[Figure]:
    rows = 4 if is_small else ROWS
    figures = []
    for count in CLASSES[:1] if is_small else CLASSES:
        subject = cross_entropy_of(count)
        row = ", ".join(filter(None, (subject.name, f"{rows:,} rows", cell)))
        work = partial(measure, subject, rows * count, cell, is_compiled)
        figures.append(Figure("how_fast_are_the_losses", "", row, work))
    return figures


def list_images(*, is_small: bool) -> list[Figure]:
    """Of one channel with torch.compile beside us, of eight classes without."""
    named = {subject.name: subject for subject in subjects()}
    size = 1_000_000 if is_small else 100_000_000
    return [
        Figure(
            "how_fast_are_the_losses",
            "",
            name_of(named[name], size, ""),
            partial(measure, named[name], size, "", name in IMAGES[:2]),
        )
        for name in IMAGES
    ]
