"""Is a derived backward as good as autograd?

Subjects: the forwards of corpora/derived (activations, losses, attention, normalisations, distances, physics steps,
linear algebra, sequences, first gradients of tutorials). Each is derived once, at 24 elements in float64, and then
called with other sizes in float32: 1,048,576 elements, where kernels count, and 256, where calls count. Measured:
forward and backward together, in turn with plain autograd of the same forward on the same inputs, one thread; the ratio
is the median over the rounds of figures taken side by side. "class" is `derived.function.apply`, "custom"
`derived.custom_gradient`. Bytes are those of the distinct storages kept for the backward, at the large size. The aim:
no more than 1.1 at the large size, and never more saved than by autograd. What can't be derived is told with its error.

The allocator is told to keep what it has (MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_): with glibc as it comes, whether a
call pays page faults hangs on the calls before it, and that is up to half of its time on either side.

    python benchmarks/is_a_derived_backward_as_good_as_autograd.py [--rounds 21] [names ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # corpora stands beside benchmarks: the tests read it too
from corpora.derived import FAMILIES, REFUSALS, Forward
from corpora.derived.measuring import gradients, interleaved, ratio, saved_bytes
from recording import describe_machine, save

from gradwright.errors import GradwrightError
from gradwright.functions.derive import derive

EXAMPLE, SMALL, LARGE = 24, 256, 1_048_576
AIM = 1.1
QUESTION = "is_a_derived_backward_as_good_as_autograd"
WORST_SHOWN = 12
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1000000000"}


def measure(forward: Forward, rounds: int) -> dict[str, Any]:
    """One row: ratios to autograd, milliseconds, bytes. Raises: GradwrightError, if it can't be derived."""
    started = time.perf_counter()
    derived = derive(forward.function, *forward.inputs(EXAMPLE))
    seconds = time.perf_counter() - started
    calls: dict[str, Callable[..., Any]] = {
        "autograd": forward.function,
        "class": derived.function.apply,
        "custom": derived.custom_gradient,
    }
    inputs = forward.inputs(LARGE, torch.float32)
    error = worst_error(calls["class"], forward)
    at = {
        size: interleaved(calls, forward.inputs(size, torch.float32), rounds, least)
        for size, least in ((LARGE, 2e-3), (SMALL, 1e-3))
    }
    row: dict[str, Any] = {"autograd ms": round(1e3 * statistics.median(at[LARGE]["autograd"]), 3)}
    for name in ("class", "custom"):
        row[f"{name} / autograd"] = round(ratio(at[LARGE][name], at[LARGE]["autograd"]), 3)
    for name in ("class", "custom"):
        row[f"{name} / autograd, {SMALL}"] = round(ratio(at[SMALL][name], at[SMALL]["autograd"]), 3)
    row["bytes saved"] = saved_bytes(derived.custom_gradient, inputs)
    row["bytes of autograd"] = saved_bytes(forward.function, inputs)
    row["error"] = f"{error:.1e}"
    row["derive s"] = round(seconds, 2)
    return row


def worst_error(call: Any, forward: Forward) -> float:
    """Of the derived gradient against autograd's, relative, in float64 at another size than it was derived at."""
    inputs = forward.inputs(SMALL)
    pairs = zip(gradients(call, inputs), gradients(forward.function, inputs), strict=True)
    return max(
        float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-12))
        for found, expected in pairs
        if found is not None and expected is not None
    )


def refused() -> dict[str, dict[str, str]]:
    """What can't be derived, and the first line of what is said."""
    rows = {}
    for name, refusal in REFUSALS.items():
        try:
            derive(refusal.function, *refusal.inputs(EXAMPLE))
            rows[name] = {"said": "derived: it should have been refused"}
        except GradwrightError as error:
            rows[name] = {"said": str(error).splitlines()[0]}
    return rows


def summary(rows: dict[str, dict[str, Any]], failed: dict[str, str]) -> list[str]:
    """Sentences for the page, the losses told as plainly as the wins."""
    total = len(rows) + len(failed)
    notes = [f"{len(rows)} of {total} forwards derived." + "".join(f" {name}: {why}" for name, why in failed.items())]
    for column, what in (
        ("class / autograd", "the class, 1,048,576 elements"),
        ("custom / autograd", "the custom gradient, 1,048,576 elements"),
        (f"class / autograd, {SMALL}", f"the class, {SMALL} elements"),
        (f"custom / autograd, {SMALL}", f"the custom gradient, {SMALL} elements"),
    ):
        ratios = {name: row[column] for name, row in rows.items()}
        worst = sorted(ratios, key=ratios.__getitem__, reverse=True)[:WORST_SHOWN]
        within = sum(value <= AIM for value in ratios.values())
        notes.append(
            f"Time of {what}: {within} of {len(ratios)} within {AIM} of autograd's, "
            f"{sum(value < 1 for value in ratios.values())} below it; median {statistics.median(ratios.values()):.2f}; "
            f"slowest: {', '.join(f'{name} {ratios[name]:.2f}' for name in worst)}."
        )
    more = [name for name, row in rows.items() if row["bytes saved"] > row["bytes of autograd"]]
    fewer = sum(row["bytes saved"] < row["bytes of autograd"] for row in rows.values())
    less = statistics.median(
        row["bytes saved"] / row["bytes of autograd"] for row in rows.values() if row["bytes of autograd"]
    )
    notes.append(
        f"Saved bytes: more than autograd's in {len(more)}{': ' if more else ''}{', '.join(more)}; "
        f"fewer in {fewer}; median share {less:.2f}."
    )
    return notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if not os.environ.keys() >= KEEPING.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPING, "OMP_NUM_THREADS": "1"})
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for family, forwards in FAMILIES.items():
        for forward in forwards:
            if asked.names and forward.name not in asked.names:
                continue
            try:
                rows[forward.name] = measure(forward, asked.rounds)
                told = ", ".join(f"{key} {value}" for key, value in rows[forward.name].items())
            except Exception as error:  # one that fails is told, and the others go on
                failed[forward.name] = told = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            print(f"{family}, {forward.name}: {told}", file=sys.stderr, flush=True)
    notes = summary(rows, failed)
    print("\n".join(notes))
    if not asked.names:
        save(
            QUESTION,
            {
                "machine": describe_machine(),
                "threads": 1,
                "rounds": asked.rounds,
                "derived": len(rows),
                "results": rows,
                "tables": {"What is not derived": refused()},
                "notes": notes,
            },
        )


if __name__ == "__main__":
    main()
