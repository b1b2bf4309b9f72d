"""Does memory stay flat with depth?

Four networks that get deeper, each differentiated in three ways: by autograd through all of it (`unrolled`), by
``torch.utils.checkpoint`` over √depth segments (`checkpoint`), and by the part of Gradwright made for it (`ours`):

- reversible blocks: `depth` blocks of two small networks each, 2048 rows, halves of 32; ``ReversibleSequence``
- a fixed point (DEQ): `depth` iterations of z = tanh(ρ z Q + x), ρ such that they leave 1e-6; ``fixed_point``, which
  solves for the same z its own way
- a simulation: `depth` steps of a heat equation on 256 x 256 cells whose conductivity is learnt; ``integrate``
- a simulation that can be run backwards: `depth` leapfrog steps of a wave equation; ``integrate(inverse=...)``

`ms`: forward and backward, median of the CPU time of one thread, the three in turn in one process of their own.
`peak MiB`: the most that tensors made by operations took at one time during forward and backward, gradients included,
parameters and inputs excluded; this does not hang on the allocator. `kept MiB`: what of it is alive between forward and
backward. `gradient error`: ours against unrolled, the largest difference over all gradients relative to the largest
entry. float32, one thread.

`resident MiB`: how far the memory of a fresh process rose above what it was before the step (VmHWM over VmRSS; one
warm-up at depth 2 before, freed memory handed back by malloc_trim), with glibc's allocator as it comes and told to
map every tensor from 64 KiB on by itself (MALLOC_MMAP_THRESHOLD_=65536). glibc 2.36 as it comes leaves holes between
aligned blocks that are freed and small ones that stay (gradients), and fills few of them again.

    python benchmarks/does_memory_stay_flat_with_depth.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from deep.memory import Alive, resident_rise
from deep.networks import METHODS, SUBJECTS, gradients, reversible_network, ways_through
from recording import describe_machine, save
from torch import Tensor

DEPTHS = (10, 100, 1000)
MIB = 1 << 20
NOTES = [
    "peak and kept MiB: tensors alive, whatever the allocator; parameters and inputs excluded, gradients included "
    "(reversible blocks have 17 KiB of parameters each, so 16 MiB of gradients at depth 1000, for all three).",
    'Resident MiB: "glibc" as it comes, "mapping" with MALLOC_MMAP_THRESHOLD_=65536.',
    "checkpoint: torch.utils.checkpoint over √depth segments. ms: CPU time.",
]


def measure_tensors(name: str, depth: int, method: str) -> dict[str, float]:
    subject = SUBJECTS[name](depth)
    gradients(subject, method)
    for tensor in subject.learnt:
        tensor.grad = None
    with Alive() as alive:
        result = subject.ways[method]()
        kept = alive.bytes - result.untyped_storage().nbytes()
        result.backward()
    return {"peak": alive.peak / MIB, "kept": kept / MIB}


def measure_resident(name: str, depth: int, method: str) -> dict[str, float]:
    gradients(SUBJECTS[name](2), method)
    subject = SUBJECTS[name](depth)
    return {"resident": resident_rise(lambda: gradients(subject, method)) / MIB}


def measure_time(name: str, depth: int, rounds: int) -> dict[str, float]:
    subject = SUBJECTS[name](depth)
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    found = {}
    for number in range(rounds + 1):
        for method in METHODS:
            started = time.process_time()
            gradient = gradients(subject, method)
            if number:
                times[method].append(time.process_time() - started)
            else:
                found[method] = gradient
    return {method: statistics.median(times[method]) * 1e3 for method in METHODS} | {
        "error": largest_apart(found["ours"], found["unrolled"])
    }


def largest_apart(found: list[Tensor], expected: list[Tensor]) -> float:
    size = max(float(two.abs().max()) for two in expected)
    return max(float((one - two).abs().max()) for one, two in zip(found, expected, strict=True)) / size


def rounding(depth: int) -> dict[str, Any]:
    """What float32 costs a reversible network: the reconstruction, and the gradients against float64's."""
    row: dict[str, Any] = {}
    exact: list[Tensor] = []
    for dtype, kind in ((torch.float64, "float64"), (torch.float32, "float32")):
        torch.manual_seed(0)
        network, x = reversible_network(depth, dtype)
        subject = ways_through(network, x)
        row[f"reconstruction error {kind}"] = f"{max(network.inverse_errors(x[0], x[1])):.1e}"
        exact = exact or [gradient.clone() for gradient in gradients(subject, "unrolled")]
        for method in ("unrolled", "ours"):
            found = [gradient.double() for gradient in gradients(subject, method)]
            row[f"gradient error {kind}, {method}"] = f"{largest_apart(found, exact):.1e}"
    del row["gradient error float64, unrolled"]  # it is what the others are held against
    return row


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "tensors": measure_tensors,
    "resident": measure_resident,
    "time": measure_time,
    "rounding": rounding,
}
ALLOCATORS = {"glibc": {}, "mapping": {"MALLOC_MMAP_THRESHOLD_": "65536"}}


def in_a_process(*words: object, **environment: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def child(what: str, *words: Any) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(MEASURES[what](*words)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*json.loads(options.child))
        return
    results, rising = {}, {}
    for name in SUBJECTS:
        for depth in DEPTHS:
            print(f"{name}, depth {depth}", file=sys.stderr)
            memory = {method: in_a_process("tensors", name, depth, method) for method in METHODS}
            times = in_a_process("time", name, depth, options.rounds)
            results[f"{name}, {depth}"] = {
                **{f"{method} ms": round(times[method], 1) for method in METHODS},
                **{f"{method} peak MiB": round(memory[method]["peak"], 1) for method in METHODS},
                **{f"{method} kept MiB": round(memory[method]["kept"], 2) for method in METHODS},
                "gradient error": f"{times['error']:.1e}",
            }
            rising[f"{name}, {depth}"] = {
                f"{method}, {allocator}": round(
                    in_a_process("resident", name, depth, method, **environment)["resident"], 1
                )
                for allocator, environment in ALLOCATORS.items()
                for method in METHODS
            }
    data = {
        "machine": describe_machine(),
        "threads": 1,
        "rounds": options.rounds,
        "results": results,
        "tables": {
            "Resident MiB, by allocator": rising,
            "What rounding costs a reversible network": {f"depth {d}": in_a_process("rounding", d) for d in DEPTHS},
        },
        "notes": NOTES,
    }
    save("does_memory_stay_flat_with_depth", data)
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
