"""What do the sources say, and does it hold? One table for each question that they answer.

The sources: a public tutorial on custom gradients, answers on slow Functions and on the gradient of a whole batch, and
a learner's notes on a Huber loss, its two errors and ``zero_grad``. Each question is a module of ``corpora/asked``:
programs of our own show what a source claims, or the fault that it has, beside what works. "Results" is a row for each
claim, in our words, judged by the figures below it; docs/questions shows each table beside its answer.

Every way takes its turn in every round; a time is the median over the rounds of CPU time on one thread, a ratio the
median of the rounds' ratios. Operations are what torch dispatches, bytes what tensors hold at once at the peak, above
the arguments (by the allocation events of torch's profiler), page faults those of a call once the allocator has
settled; glibc as it comes, but for the table that says otherwise. Errors are relative to the largest true entry.

    python benchmarks/what_do_the_sources_say.py [--rounds 9] [--quick] [--only TEXT] [--no-save]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # corpora stands beside benchmarks: the tests read it too
from corpora.asked import (
    batch,
    einsum,
    equal,
    helps,
    huber,
    is_right,
    masks,
    never_called,
    purposes,
    reductions,
    slow,
    wrt,
    zero_grad,
)
from corpora.asked.answer import Rows
from recording import describe_machine, save
from table import table

QUESTIONS = (
    never_called.measure,
    slow.loops,
    slow.backwards,
    einsum.measure,
    batch.measure,
    wrt.measure,
    reductions.measure,
    masks.measure,
    huber.measure,
    zero_grad.places,
    zero_grad.clearing,
    purposes.measure,
    equal.measure,
    helps.measure,
    is_right.measure,  # late: gw.check registers hooks, and gw.batch_jacobian looks twice where any ever was
    slow.retained,  # last: it sets the allocator for good
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="2 rounds, small sizes, no torch.compile")
    parser.add_argument("--only", default="", help="only modules whose name contains this; saves nothing")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables: dict[str, Rows] = {}
    claims: Rows = {}
    for question in QUESTIONS:
        if options.only not in f"{question.__module__}.{question.__name__}":
            continue
        started = time.perf_counter()
        found = question(2 if options.quick else options.rounds, options.quick)
        tables[found.title], claims = found.rows, claims | found.claims
        print(f"## {found.title} ({time.perf_counter() - started:.1f} s)\n\n{table(found.rows)}\n", flush=True)
    print(table(claims) if claims else "")
    if not (options.only or options.no_save):
        save("what_do_the_sources_say", {"machine": describe_machine(), "results": claims, "tables": tables})


if __name__ == "__main__":
    main()
