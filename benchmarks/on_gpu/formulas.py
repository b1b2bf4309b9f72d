"""``gw.elementwise`` beside torch: rows of ``how_fast_is_a_formula.py``.

Columns as there, and: ``copy_us``, what reading each input and writing each result once takes at the speed of the
device's copy; ``in_copies``, ours as a multiple of that; ``ours_spread``, the slowest round by the fastest;
``ours_first_s``, ``warm-up_s``, the first call of ours and of torch.compile's; ``backend``, what ours ran on; MiB, what
tensors held at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import how_fast_is_a_formula as benchmark
from formulas.subjects import Subject, subjects

import gradwright as gw
from on_gpu.comparing import NOT_IN_A_DRY_RUN, Way, compare
from on_gpu.figure import Figure, Machine

NAMES = ("Huber", "GELU", "30 nodes")
#: With torch.compile beside us: a loss of memory's time, and one of launching's.
COMPILED_SIZES = (100_000_000, 10_000)
OTHER_SIZES = (1_000_000, 10_000_000, 1_000)
SMALL_SIZES = (1_000, 10_000)
TOLERANCE = 1e-5  # of the largest slope, as on the CPU
UNCHECKED = ("floor", "exp")


def moved_bytes(task: benchmark.Task) -> int:
    """Each input read once, the gradient written once; of an activation its cotangent read and its value written."""
    size = task.inputs[0].numel() * task.inputs[0].element_size()
    return size * (len(task.inputs) + 1 + (0 if task.subject.is_loss else 2))


def measure(subject: Subject, size: int, is_compiled: bool, machine: Machine) -> dict[str, Any]:
    task = benchmark.task_of(subject, size, "", machine.device)
    calls = benchmark.ways_of(task, compiled=is_compiled and not machine.is_small)
    calls.pop("jax", None)
    ways = {name: Way(call) for name, call in calls.items()}
    truth = [benchmark.truth_of(task)]
    found = compare(ways, machine, truth=truth, tolerance=TOLERANCE, unchecked=UNCHECKED)
    if "compile" not in calls:
        found.notes["compile"] = NOT_IN_A_DRY_RUN if is_compiled else "not compiled for this size"
    took = found.seconds.get("ours")
    cells: dict[str, Any] = {"ours_us": round(1e6 * took, 1) if took else found.ratio("ours")}
    for name in benchmark.WAYS:
        if name not in (*UNCHECKED, "jax"):
            cells[name] = found.ratio(name)
    for name in UNCHECKED:
        cells[f"ours_in_{name}s"] = round(1 / found.of_ours[name], 2) if name in found.of_ours else "-"
    copied = machine.copy_seconds(moved_bytes(task))
    cells |= {
        "copy_us": float(f"{1e6 * copied:.4g}"),
        "in_copies": round(took / copied, 2) if took else "-",
        "ours_spread": found.spread_of_ours(),
        "ours_first_s": round(found.first_seconds["ours"], 2) if "ours" in found.first_seconds else "-",
        "warm-up_s": round(found.first_seconds["compile"], 1) if "compile" in found.seconds else "-",
        "backend": _backend(task, found.notes),
        "ours_MiB": found.mebibytes("ours"),
        "eager_MiB": found.mebibytes("eager"),
        "compile_MiB": found.mebibytes("compile"),
    }
    return found.finish(cells)


def _backend(task: benchmark.Task, notes: dict[str, str]) -> str:
    """What ours runs on; a note, where that is plain torch."""
    named = dict(zip(task.subject.inputs, task.inputs, strict=True)) | dict(task.subject.numbers)
    try:
        plan = gw.elementwise(task.subject.text, reduction="mean" if task.subject.is_loss else "none").plan(**named)
    except Exception as error:  # ours broke: the note of its own way says so
        return f"{type(error).__name__}"
    if plan.is_fallback:
        notes["backend"] = plan.why
    return plan.backend


def list_figures(sizes: tuple[int, ...], *, is_compiled: bool = False) -> list[Figure]:
    named = {subject.name: subject for subject in subjects()}
    return [
        Figure(
            "how_fast_is_a_formula",
            "",
            f"{name} ({named[name].limit}), {size:.0e}",
            partial(measure, named[name], size, is_compiled),
        )
        for size in sizes
        for name in NAMES
    ]
