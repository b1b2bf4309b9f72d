"""How fast is a step of nanoGPT?

examples/nanogpt at nanoGPT's size for a CPU (12 x 64 tokens, 4 layers, 4 heads, 128 wide, 0.8 million weights,
float32): the plain loop (plain.py, AdamW in one kernel) beside train.py's, and ours with one part at a time taken out
again or put into the plain loop; torch.compile of the plain loop as a peer. Every way has a process of its own; they
take a step in turn. All losses agree (asserted).

`ms`: median of the wall clock. `times plain`: median of the ratios within a turn, below 1 where it is faster. `page
faults` of a step: median. `saved MiB`: storages that tensors saved for the backward lie in, without the parameters
(what a loss has computed ahead is not among them). `peak MiB`: the most that the tensors of a step take at one time.
`resident MiB`: how far the process rises in its first three steps (with torch.compile: and by the compiling).

    python benchmarks/how_fast_is_a_step_of_nanogpt.py [--rounds 40] [--quick] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from nanogpt_steps.ways import IN_PLAIN_TORCH, KEPT, OURS, PLAIN, WAYS, gradients_of_ours
from recording import describe_machine, save

QUESTION = "how_fast_is_a_step_of_nanogpt"
MIB = 1 << 20
WARM = 5
NOTES = [
    "Every way in a process of its own, glibc's allocator as it comes unless freed memory is kept "
    "(gw.retain_freed_memory, as train.py calls it); a step of each in turn. float32.",
    "plain.py has AdamW's fused kernel, too; the row with its default loop is what nanoGPT does on a CPU.",
]


class Way:
    """A process that takes steps."""

    def __init__(self, name: str) -> None:
        child = Path(__file__).parent / "nanogpt_steps" / "stepping.py"
        words = [sys.executable, str(child), name]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def measure(ways: dict[str, Way], threads: int, rounds: int) -> dict[str, dict[str, Any]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(-WARM, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            answer = ways[name].ask(threads=threads)
            if number >= 0:
                found[name].append(answer)
    for name in names:
        apart = max(abs(one["loss"] - other["loss"]) for one, other in zip(found[name], found[PLAIN], strict=True))
        assert apart < 1e-3, f"{name} is off the plain loop by {apart}"
    rows = {}
    for name in names:
        ratios = [one["seconds"] / other["seconds"] for one, other in zip(found[name], found[PLAIN], strict=True)]
        rows[name] = {
            "ms": round(1e3 * statistics.median(one["seconds"] for one in found[name]), 1),
            "times_plain": round(statistics.median(ratios), 3),
            "page_faults": round(statistics.median(one["faults"] for one in found[name])),
        }
        print(f"{threads} thread(s)  {name:50} {rows[name]}", file=sys.stderr)
    return rows


def memory(ways: dict[str, Way]) -> dict[str, dict[str, Any]]:
    rows = {}
    for name, way in ways.items():
        taken = way.ask(memory=True)
        rows[name] = {f"{what}_MiB": round(taken[what] / MIB, 1) for what in ("saved", "peak", "resident")}
        print(f"{name:50} {rows[name]}", file=sys.stderr)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="3 rounds of four ways, one thread, nothing saved")
    parser.add_argument("--no-save", action="store_true")
    asked = parser.parse_args()
    assert gradients_of_ours() == set(IN_PLAIN_TORCH), "a gradient of the example has no row of its own"
    chosen = (PLAIN, KEPT, OURS, "plain.py, our gradients") if asked.quick else tuple(WAYS)
    ways = {name: Way(name) for name in chosen}
    try:
        rounds = 3 if asked.quick else asked.rounds
        one = measure(ways, 1, rounds)
        two = {} if asked.quick else measure(ways, 2, rounds)
        taken = memory(ways)
    finally:
        for way in ways.values():
            way.end()
    shown = {name: one[name] | taken[name] for name in (PLAIN, KEPT)}
    if asked.quick or asked.no_save:
        return
    tables = {"one thread": one, "two threads": two, "memory": taken}
    data = {"machine": describe_machine(), "rounds": rounds, "results": shown, "tables": tables, "notes": NOTES}
    save(QUESTION, data)


if __name__ == "__main__":
    main()
