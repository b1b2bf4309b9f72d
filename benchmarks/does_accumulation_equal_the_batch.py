"""Does accumulation equal the batch?

A small causal model of tokens trains by windows of 8 micro-batches whose numbers of tokens differ (labels ignored,
sequences of uneven lengths), by loops that are written out, by Gradwright, Accelerate, Lightning and transformers'
Trainer. Error: of the gradient that the optimizer gets, against that of one full batch, relative L2; in a window of 8,
and in one of 3 that stands at the end of a pass. Time: CPU time of an update, the ways in turn, medians; `times by
hand` is the median of the ratios within a turn to the loop by hand that divides by the window's count (where there is a
clip: to the one with a clip). Peak: bytes that tensors held at once beyond what was there before. One process, one
thread, float32 where not said otherwise; then two ranks under DDP (gloo): error, and what each rank hands to the wire
for an update.

    .venv-peers/bin/python benchmarks/does_accumulation_equal_the_batch.py [--rounds 15] [--quick] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
from accumulation import by_hand, by_package
from accumulation.task import Job, MicroBatches, OwnMean, Tokens, full_gradient, items_of, joined, loss_of
from recording import describe_machine, save
from torch import nn

from gradwright.ground.memory import memory_of

QUESTION = "does_accumulation_equal_the_batch"
STEPS, SHORT, UPDATES = 8, 3, 4
CLIP = 1e6  # the norm is taken, nothing is cut

WAYS: dict[str, Callable[[Job], None]] = {
    "by hand, whole count": by_hand.whole_batch_count,
    "by hand, whole count, again": by_hand.whole_batch_count,  # what the clock itself is off by
    "by hand, whole count, clip": partial(by_hand.whole_batch_count, max_norm=CLIP),
    "by hand, mean / steps": by_hand.per_step_division,
    "GradientAccumulator": by_hand.gradwright,
    "GradientAccumulator, clip": partial(by_hand.gradwright, max_norm=CLIP),
    'GradientAccumulator, on_nonfinite="ignore"': partial(by_hand.gradwright, on_nonfinite="ignore"),
    "GradientAccumulator, accumulate_dtype=float64": partial(by_hand.gradwright, accumulate_dtype=torch.float64),
    "Accelerate": partial(by_package.accelerate, ours=False),
    "Accelerate, AccelerateAccumulator": partial(by_package.accelerate, ours=True),
    "Lightning": partial(by_package.lightning, ours=False),
    "Lightning, LightningAccumulator": partial(by_package.lightning, ours=True),
    "Trainer": partial(by_package.trainer, ours=False),
    "Trainer, a model with its own mean": partial(by_package.trainer, ours=False),
    "Trainer, a model with its own mean, ExactTrainer": partial(by_package.trainer, ours=True),
}


def model_for(way: str, width: int, dtype: torch.dtype) -> nn.Module:
    return (OwnMean if "own mean" in way else Tokens)(width, dtype)


def error(way: str, width: int, dtype: torch.dtype, micro_batches: int) -> float:
    model = model_for(way, width, dtype)
    job = Job(model, MicroBatches(micro_batches), STEPS)
    job.optimizer.keeps = True
    WAYS[way](job)
    if job.optimizer.seen is None:
        return float("nan")  # no step was made
    expected = full_gradient(model, job.data.batches)
    return float((job.optimizer.seen - expected).norm() / expected.norm())


def times(width: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of an update, for each way and round."""
    data = MicroBatches(STEPS * UPDATES)
    took: dict[str, list[float]] = {name: [] for name in WAYS}
    for turn in range(rounds + 1):
        for name, way in WAYS.items():
            job = Job(model_for(name, width, torch.float32), data, STEPS)
            way(job)
            if turn:  # the first one warms up
                took[name].append(job.seconds / UPDATES)
    return took


def baseline(way: str) -> str:
    return "by hand, whole count, clip" if way.endswith("clip") else "by hand, whole count"


def measured(width: int, rounds: int) -> dict[str, dict[str, Any]]:
    took = times(width, rounds)
    return {
        name: {
            "ms": round(1e3 * statistics.median(took[name]), 2),
            "times_by_hand": round(
                statistics.median(one / hand for one, hand in zip(took[name], took[baseline(name)], strict=True)), 3
            ),
        }
        for name in WAYS
    }


def one_process(rounds: int) -> dict[str, dict[str, Any]]:
    small, large = measured(64, rounds), measured(256, max(rounds // 2, 1))
    rows = {}
    for name in WAYS:
        rows[name] = {
            "error": f"{error(name, 64, torch.float32, STEPS):.1e}",
            "error_short_window": f"{error(name, 64, torch.float32, SHORT):.1e}",
            "error_float64": f"{error(name, 64, torch.float64, STEPS):.1e}",
            **{f"{column}_small": value for column, value in small[name].items()},
            **{f"{column}_larger": value for column, value in large[name].items()},
        }
        told = " ".join(f"{column} {value}" for column, value in rows[name].items())
        print(f"{name:52} {told}", file=sys.stderr)
    return rows


def memory() -> dict[str, dict[str, Any]]:
    """Of an update: forward, backward, step; gradients count."""
    data = MicroBatches(STEPS)
    cpu = torch.device("cpu")

    def full() -> None:
        job = Job(Tokens(256, torch.float32), data, STEPS)
        loss_of(job.model, joined(data.batches), "mean").backward()
        job.optimizer.step()

    works: dict[str, Callable[[], None]] = {"one full batch": full}
    for name in ("by hand, whole count", "GradientAccumulator", "GradientAccumulator, accumulate_dtype=float64"):
        works[name] = partial(lambda way: way(Job(Tokens(256, torch.float32), data, STEPS)), WAYS[name])
    held = sum(one.nbytes for one in Tokens(256, torch.float32).parameters())
    found = {}
    for name, work in works.items():
        peak = memory_of(work, cpu).peak_bytes - 2 * held  # the model, and the job's copy of it
        found[name] = {"peak_MiB": round(peak / 2**20, 1), "gradients_of_it_MiB": round(held / 2**20, 1)}
    return found


def two_ranks() -> dict[str, dict[str, Any]]:
    command = [
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
    ]
    script = Path(__file__).parent / "accumulation" / "on_two_ranks.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command, str(script), "64", str(STEPS)],
        capture_output=True, text=True, env=environment, timeout=600, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[:6000])
    rows: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    for name, row in rows.items():
        print(f"{name:52} {row}", file=sys.stderr)
    return rows


def main() -> None:
    warnings.simplefilter("ignore")  # of the packages
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="2 rounds, nothing saved")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 2 if options.quick else options.rounds
    results = one_process(rounds)
    needed = memory()
    print(needed, file=sys.stderr)
    ranks = two_ranks()
    if not options.quick and not options.no_save:
        counts = [int(items_of(batch)) for batch in MicroBatches(STEPS).batches]
        packages = ", ".join(f"{one} {version(one)}" for one in ("accelerate", "pytorch-lightning", "transformers"))
        tables = {"Memory of an update, the larger model": needed, "Two ranks under DDP, an update": ranks}
        told = {"threads": 1, "rounds": rounds, "results": results, "tables": tables}
        notes = [*NOTES, f"Items in the micro-batches of the window: {counts}. {packages}."]
        save(QUESTION, {"machine": describe_machine(), **told, "notes": notes})


NOTES = [
    "small: 64 wide, larger: 256 wide; two blocks, 512 words. GradientAccumulator looks whether the gradient is finite "
    "before it makes a step, which the loop by hand does not: its norm is that of the clip, where there is one; "
    'on_nonfinite="ignore" leaves it out.',
    "by hand, mean / steps: what most loops write. Trainer hands num_items_in_batch to models that take it, which is "
    "exact; a model with its own mean takes none. other bytes: counts and the like; and gradients of accumulate_dtype, "
    "which do not pass by DDP's buckets.",
]


if __name__ == "__main__":
    main()
