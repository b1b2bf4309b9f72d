"""How fast are the losses, value and gradient, beside torch, smp, MONAI, kornia, torch.compile and memory?

Every loss of ``gradwright.losses`` (losses_at_work/, one module per family), forward and backward, float32, on the CPU:

- F: torch.nn.functional · smp, MONAI, kornia: their losses, set so that they compute the same · torchvision: its focal
  formula · naive: the loss by torch's operations, one after the other · compile: torch.compile of the naive form, in
  steady state, and the seconds of its first call from an empty cache
- floor: as many bytes as must move, copied at the speed of copy_ between tensors that exist, and an empty
  autograd.Function: every tensor read once (twice where the gradient needs sums over the batch), every gradient
  written: 12 bytes an element for a prediction and a target, 20 for Dice

Each size of a loss, in each state of the allocator, is a process of its own, and so are its other cells; on one thread.
In every round each way takes its turn; the figure is the median over rounds of CPU time, a ratio is the median of the
rounds' ratios. Before each call 128 MiB of something else are read: no way finds its inputs in the cache, as after a
pass through a network; in the cell "in the cache" they stay there. "Memory kept": the environment makes glibc keep what
is freed (what ``gw.retain_freed_memory()`` does to a running process), so that page faults are nobody's, which favours
those who allocate more; all aims are judged in that state. "As it comes": glibc's default.

Bytes moved: of ours what ``loss.plan(...)`` tells of its launches, and what torch does beside them; of the others the
sum, over torch's operations, forward and backward, of the distinct elements read and written. Bytes at the peak: what
tensors hold at once, above the arguments, by the allocation events of torch's profiler. Errors: the largest of the
gradient against the naive loss in float64, relative to the largest slope. First calls are of new processes that have
imported torch: cold (no kernel in the cache) and cached.

    python benchmarks/how_fast_are_the_losses.py [--rounds 15] [--quick] [--only TEXT] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from losses_at_work import subjects
from losses_at_work.measuring import measured, step_of, task_of
from losses_at_work.subject import IN_CACHE, Subject
from recording import describe_machine, save

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
STATES = {"memory kept": KEPT, "as it comes": {}}
OTHERS = ("F", "smp", "MONAI", "kornia", "torchvision", "naive", "compile")
LIBRARIES = ("smp", "MONAI")
PATIENCE = 900  # seconds for one process
MISSING = "no such loss yet"
SAME_BYTES = (IN_CACHE, "upstream 0.37", "upstream changes")
ROUNDING = 1.2e-7  # relative: an error below is float32's


def child(options: argparse.Namespace) -> dict[str, Any]:
    """Cells of one size, by their names; or the first call of a process."""
    (subject,) = (subject for subject in subjects() if subject.name == options.child)
    cells = options.cells.split("|")
    task = task_of(subject, options.size, cells[0])
    start = time.perf_counter()
    from gradwright import losses

    try:
        ours = subject.loss(losses)
    except AttributeError as error:
        return {"missing": f"{MISSING}: {error}"}
    if options.first:
        step_of(task, ours)()
        return {"first": time.perf_counter() - start}
    figures: dict[str, Any] = {}
    for cell in cells:
        task = task_of(subject, options.size, cell)
        try:
            figures[cell] = measured(task, subject.loss(losses), options.rounds, compiled=options.compile)
        except Exception as error:  # one that fails takes no other with it
            figures[cell] = {"broken": f"{type(error).__name__}: {error}"}
    return {"cells": figures}


def in_a_process(subject: Subject, *words: str, **environment: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", subject.name, *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment}
        )
    except subprocess.TimeoutExpired:
        return {"broken": f"no answer in {PATIENCE} s"}
    if done.returncode:
        return {"broken": " ".join(done.stderr.strip().splitlines()[-1:])}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


class Kept:
    """The figures, as they come."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, dict[str, Any]]] = {state: {} for state in STATES}
        self.first: dict[str, dict[str, float]] = {}
        self.skipped: dict[str, str] = {}


def run(subject: Subject, options: argparse.Namespace, kept: Kept) -> None:
    for size in subject.sizes[:1] if options.quick else subject.sizes:
        with tempfile.TemporaryDirectory() as torchs:  # so that the first state compiles from an empty cache
            for state in STATES:
                if not note(subject, size, [""], state, torchs, options, kept):
                    return
    if subject.cells:
        note(subject, subject.sizes[0], list(subject.cells), "memory kept", "", options, kept)
    kept.first[subject.name] = first_calls(subject)


def note(
    subject: Subject, size: int, cells: list[str], state: str, torchs: str, options: argparse.Namespace, kept: Kept
) -> bool:
    """What a process says of cells; False, where the loss is missing. ``torchs``: a folder for torch's compiler."""
    words = ["--size", str(size), "--cells", "|".join(cells), "--rounds", str(options.rounds)]
    words += ["--compile"] * (bool(torchs) and not options.quick)
    found = in_a_process(subject, *words, TORCHINDUCTOR_CACHE_DIR=torchs or tempfile.gettempdir(), **STATES[state])
    if "missing" in found:
        kept.skipped[subject.name] = found["missing"]
        print(subject.name, "skipped:", found["missing"], flush=True)
        return False
    for cell in cells:
        name = name_of(subject, size, cell)
        figures = found["cells"][cell] if "cells" in found else found
        if "broken" in figures:
            kept.skipped[f"{name}, {state}"] = figures["broken"]
            print(name, "broke off:", figures["broken"], flush=True)
            continue
        kept.cells[state][name] = figures | {"family": subject.family, "cell": cell, "size": size}
        print(name, state, times_row(figures), flush=True)
    return True


def name_of(subject: Subject, size: int, cell: str) -> str:
    """Of a power of ten as one: 1e6."""
    told = cell or (f"1e{len(str(size)) - 1}" if str(size).strip("0") == "1" else f"{size:,}")
    return f"{subject.name}, {told}"


def first_calls(subject: Subject) -> dict[str, float]:
    words = ("--first", "--size", str(subject.sizes[0]), "--cells", "")
    with tempfile.TemporaryDirectory() as cache:
        cold, cached = (in_a_process(subject, *words, GRADWRIGHT_CACHE_DIR=cache) for _ in range(2))
    return {"cold": cold.get("first", 0.0), "cached": cached.get("first", 0.0)}


def times_row(figures: dict[str, Any]) -> dict[str, Any]:
    """Ours in microseconds and in floors; of the others, how many times ours."""
    ratios = figures["of ours"]
    row: dict[str, Any] = {
        "ours_us": f"{1e6 * figures['seconds']['ours']:.4g}",
        "in_floors": f"{1 / ratios['floor']:.2f}" if "floor" in ratios else "-",
    }
    for name in OTHERS:
        row[name] = f"{ratios[name]:.2f}" if name in ratios else "-"
    return row | {"warm-up_s": f"{figures['warm-up']:.1f}" if "warm-up" in figures else "-"}


def _without_warm_up(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "warm-up_s"}


def bytes_row(figures: dict[str, Any]) -> dict[str, Any]:
    row = {}
    for what, name in (("moved", "ours"), ("moved", "floor"), *(("moved", other) for other in OTHERS[:-1])):
        found = figures[what].get(name)
        row[name] = "-" if found is None or (name == "floor" and "floor" not in figures["of ours"]) else _short(found)
    if figures["is fallback"]:
        row["ours"] += " (torch)"
    for name in ("ours", *OTHERS):
        found = figures["peak"].get(name)
        row[f"peak_{name}"] = "-" if found is None else _short(found)
    return row


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def error_row(figures: dict[str, Any]) -> dict[str, Any]:
    errors = figures["error"]
    return {name: f"{errors[name]:.1e}" if name in errors else "-" for name in ("ours", *OTHERS)}


def first_row(first: dict[str, float], figures: dict[str, Any]) -> dict[str, Any]:
    """Seconds."""
    return {
        "cold_s": f"{first['cold']:.2f}",
        "cached_s": f"{first['cached']:.2f}",
        "steady_ms": f"{1e3 * figures['seconds']['ours']:.3g}",
        "compile_cold_s": f"{figures['warm-up']:.1f}" if "warm-up" in figures else "-",
    }


def notes(kept: Kept) -> list[str]:
    """How far the aims are met, in the state that favours the others."""
    cells = kept.cells["memory kept"]
    large = {name: one for name, one in cells.items() if not one["cell"]}
    floors = {
        name: 1 / one["of ours"]["floor"]
        for name, one in cells.items()
        if one["family"] == "element-wise" and "floor" in one["of ours"]
    }
    whole = {name: ratio for name, ratio in floors.items() if name in large}
    whole_images, other_images = (
        {
            f"{name}, {library}": one["of ours"][library]
            for name, one in cells.items()
            if one["family"] == "segmentation" and (name in large) == is_whole
            for library in LIBRARIES
            if library in one["of ours"]
        }
        for is_whole in (True, False)
    )
    many = {name: one["of ours"]["F"] for name, one in large.items() if "32,768 classes" in name}
    compiled = {name: one["of ours"]["compile"] for name, one in large.items() if "compile" in one["of ours"]}
    exact = {name: one["error"] for name, one in cells.items() if one["cell"] not in ("bfloat16", "no grad")}
    told = [
        "In floors: ours as a multiple of it. F to compile: their time as a multiple of ours.",
        "Upstream changes: what arrives at the loss is another number in each call, so that it can't be foretold, and "
        "value and gradient are two passes (for a prediction and a target 8 bytes an element more than otherwise).",
        _aim("element-wise losses within 1.3 floors from 1e6 elements", whole, lambda ratio: ratio <= 1.3),
        _aim("the same in the other cells", _without(floors, whole), lambda ratio: ratio <= 1.3),
        _aim("segmentation at least 5 times faster than smp and MONAI", whole_images, lambda ratio: ratio >= 5),
        _aim("the same in the other cells", other_images, lambda ratio: ratio >= 5),
        _aim("cross entropy of 32,768 classes at least twice as fast as F", many, lambda ratio: ratio >= 2),
        _errors("no larger than the built-in's", {name: one for name, one in exact.items() if "F" in one}, "F"),
        _errors("no larger than the naive loss's", {n: one for n, one in exact.items() if "F" not in one}, "naive"),
        _aim("faster than torch.compile of the naive form", compiled, lambda ratio: ratio > 1.05),
    ]
    if kept.skipped:
        told.append("Not measured: " + "; ".join(f"{name} ({why})" for name, why in kept.skipped.items()) + ".")
    return [one for one in told if one]


def _errors(told: str, errors: dict[str, dict[str, float]], other: str) -> str:
    if not errors:
        return ""
    worse = [
        f"{name} {one['ours']:.1e} against {one[other]:.1e}"
        for name, one in errors.items()
        if one["ours"] > max(one[other], ROUNDING)
    ]
    return (
        f"Aim: gradient error {told}, or below {ROUNDING}: {len(errors) - len(worse)} of {len(errors)}"
        + (f"; not so: {'; '.join(worse)}" if worse else "")
        + "."
    )


def _without(all_of: dict[str, float], some: dict[str, float]) -> dict[str, float]:
    return {name: ratio for name, ratio in all_of.items() if name not in some}


def _aim(told: str, ratios: dict[str, float], holds: Callable[[float], bool]) -> str:
    if not ratios:
        return ""
    missed = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if not holds(ratio)]
    middle = statistics.median(ratios.values())
    return (
        f"Aim: {told}: {len(ratios) - len(missed)} of {len(ratios)}, median {middle:.2f}"
        + (f"; not so: {'; '.join(missed)}" if missed else "")
        + "."
    )


def tables_of(kept: Kept) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first table, and the further ones by title."""
    cells, freed = kept.cells["memory kept"], kept.cells["as it comes"]
    large = {name: one for name, one in cells.items() if not one["cell"]}
    smallest = {name.rsplit(", ", 1)[0]: one for name, one in reversed(large.items())}
    return {name: times_row(one) for name, one in large.items()}, {
        "Allocator as it comes": {name: _without_warm_up(times_row(one)) for name, one in freed.items()},
        "Other cells, the smaller size": {
            name: _without_warm_up(times_row(one)) for name, one in cells.items() if one["cell"]
        },
        "Bytes an element: moved, and at the peak": {
            name: bytes_row(one) for name, one in cells.items() if one["cell"] not in SAME_BYTES
        },
        "Largest error of the gradient": {
            name: error_row(one) for name, one in cells.items() if one["cell"] not in ("no grad", IN_CACHE)
        },
        "First call": {
            name: first_row(first, smallest[name]) for name, first in kept.first.items() if name in smallest
        },
    }


def rounded(found: Any) -> Any:
    """With four digits."""
    if isinstance(found, dict):
        return {name: rounded(one) for name, one in found.items()}
    return float(f"{found:.4g}") if isinstance(found, float) else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 rounds, the smallest sizes, no torch.compile")
    parser.add_argument("--only", default="", help="losses whose name contains this")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cells", help=argparse.SUPPRESS)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options)))
        return
    if options.quick:
        options.rounds = 5
    kept = Kept()
    for subject in subjects():
        if options.only in subject.name:
            run(subject, options, kept)
    told = notes(kept)
    print("\n".join(told))
    if options.no_save or options.only or options.quick:
        return
    results, tables = tables_of(kept)
    machine = describe_machine() | {"allocator": "memory kept, " + ", ".join(f"{k}={v}" for k, v in KEPT.items())}
    save(
        "how_fast_are_the_losses",
        {"machine": machine, "results": results, "tables": tables, "notes": told, "details": rounded(vars(kept))},
    )


if __name__ == "__main__":
    main()
