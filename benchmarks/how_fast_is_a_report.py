"""How fast is the command line: from its start to --help, to a completed word, to a report of 500 findings?

Each figure is of a new process, from its start to its end, as a user waits for it: the median of the rounds, with the
fastest and the slowest. The session is made up: 500 findings in 25 files of 400 lines, 60 Functions with verdicts,
calls and costs per line, a fix or a failed candidate at every other finding, a timeline of 4,000 spans. Bytes are those
of the report. The aims: 0.3 s to --help and to a completed word, 2 s and 8 MB for a report.

    python benchmarks/how_fast_is_a_report.py [--rounds 11] [--quick] [--no-save]

--quick: one round, nothing saved; it ends with 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import describe_machine, save

from gradwright.doctor.render import FORMATS
from gradwright.doctor.session.codec import to_json
from gradwright.doctor.session.facts import FunctionCalls, GradientVerdict, LineCost, LoopShape, OpsPerLine, Timeline
from gradwright.doctor.session.hunks import unified
from gradwright.doctor.session.model import (
    Candidate,
    Environment,
    Finding,
    Fix,
    NotExamined,
    Proof,
    Report,
    Script,
    Source,
    Specimen,
    Subject,
    TensorSpec,
)
from gradwright.doctor.session.place import Location

FINDINGS, FILES, FUNCTIONS, SPANS = 500, 25, 60, 4_000
START_SECONDS, REPORT_SECONDS, REPORT_BYTES = 0.3, 2.0, 8_000_000
GRADWRIGHT = [sys.executable, "-m", "gradwright"]

BLOCK = """\
class Slow{number}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        for n in range(len(x)):
            for k in range(len(w)):
                grad_x[n, k] = (grad_output[n] * w[k]).sum()
        return grad_x, 0.5 * x.t() @ grad_output


"""
LINES = BLOCK.count("\n")
RULES = (
    ("GW301", "python-loop-over-elements", "speed", "warning", 11),
    ("GW101", "gradient-value-wrong", "gradient", "error", 14),
    ("GW303", "function-not-needed", "speed", "info", 1),
    ("GW401", "page-faults", "memory", "warning", 9),
)


def at(file: int, block: int, line: int, column: int = 9, width: int = 30) -> Location:
    number = 1 + block * LINES + line
    return Location(f"layers/part{file}.py", number, column, number, column + width)


def made_up() -> Report:
    """The session of 500 findings."""
    blocks = 400 // LINES
    texts = ["import torch\n" + "".join(BLOCK.format(number=100 * f + b) for b in range(blocks)) for f in range(FILES)]
    sources = [
        Source(f"layers/part{number}.py", hashlib.sha256(text.encode()).hexdigest(), text)
        for number, text in enumerate(texts)
    ]
    places = [divmod(number, blocks) for number in range(FUNCTIONS)]
    subjects = [
        Subject(f"function:{number}", "function", f"Slow{100 * file + block}", at(file, block, 1))
        for number, (file, block) in enumerate(places)
    ]
    tensors = tuple(TensorSpec(name, (128, 64), "float32", (64, 1)) for name in ("x", "w", "grad_output"))
    specimens = [Specimen(f"{one.id} {call}", one.id, call, tensors, 98_304) for one in subjects for call in range(4)]
    facts: list[Any] = []
    for subject, (file, block) in zip(subjects, places, strict=True):
        facts += facts_of(subject, file, block)
    facts.append(timeline(subjects))
    return Report(
        environment=Environment("0.1.0", "3.11.7", "2.13.0", "cpu", "Linux", 2, "/home/someone/project"),
        script=Script(("train.py", "--epochs", "1"), 0, 64.2, "after 200 steps", steps=200, gradients=200),
        sources=tuple(sources),
        subjects=tuple(subjects),
        specimens=tuple(specimens),
        facts=tuple(facts),
        findings=tuple(finding(number, texts, blocks) for number in range(FINDINGS)),
        not_examined=tuple(NotExamined(f"second order of {one.name}", "time limit of one check") for one in subjects),
    )


def facts_of(subject: Subject, file: int, block: int) -> list[Any]:
    one = subject.id
    lines = tuple(
        LineCost(location=at(file, block, line), operations=8_192, scalar_operations=4_096, bytes=131_072, seconds=0.01)
        for line in range(9, 15)
    )
    verdicts = [
        GradientVerdict(
            id=f"verdict {one} {name} {call}", subject=one, specimen=f"{one} {call}", input_index=index,
            input_name=name, verdict="wrong" if name == "w" else "right", factor=0.5, tolerance=1e-6, at=(3, 4),
            cause="constant factor" if name == "w" else "", error=0.5 if name == "w" else 1e-8, returned=0.25,
            expected=0.5, checks=7, oracles=("autograd of the forward", "finite differences"),
            tried_on="x float32[128, 64], w float32[64, 64]", cotangents=(("ones", 1e-8), ("random", 2e-8)),
        )
        for index, name in enumerate(("x", "w"))
        for call in range(4)
    ]  # fmt: skip
    return [
        FunctionCalls(
            id=f"calls {one}", subject=one, forward_calls=200, tracked_calls=200, backward_calls=200,
            forward_seconds=0.4, backward_seconds=31.0, share_of_step=0.4, call_site=at(file, block, 5),
        ),
        *verdicts,
        *(
            OpsPerLine(
                id=f"ops {one} {phase}", subject=one, phase=phase, operations=16_384, bytes=1_048_576,
                minimum_bytes=98_304, seconds=0.15, tried_on="x float32[128, 64]", lines=lines,
            )
            for phase in ("forward", "backward")
        ),
        LoopShape(
            id=f"loop {one}", subject=one, phase="backward", location=at(file, block, 11), hot=at(file, block, 13),
            iterations=8_192, operations=40_960, scalar_operations=16_384, full_operations=40_960, extrapolated=False,
            seconds=0.15, share_of_step=0.4, tried_on="x float32[128, 64]",
        ),
    ]  # fmt: skip


def timeline(subjects: list[Subject]) -> Timeline:
    numbers = range(SPANS)
    return Timeline(
        id="timeline", subject="script", whom=tuple(subjects[number % len(subjects)].id for number in numbers),
        spans=tuple("forward" if number % 2 else "backward" for number in numbers),
        starts=tuple(0.01 * number for number in numbers), seconds=(0.008,) * SPANS, threads=(0,) * SPANS,
        steps=tuple(number // 20 for number in numbers),
    )  # fmt: skip


def finding(number: int, texts: list[str], blocks: int) -> Finding:
    code, name, category, severity, line = RULES[number % len(RULES)]
    file, block = divmod(number % (FILES * blocks), blocks)
    place = at(file, block, line, 9 if line > 1 else 1)
    old = texts[file].splitlines(keepends=True)
    new = [*old[: place.line - 1], "        grad_x = grad_output @ w.t()\n", *old[place.line + 2 :]]
    diff = "".join(unified(place.path, old, new))
    inputs = tuple(f"x float32[{size}, 64], w float32[64, 64]" for size in range(12))
    proof = Proof(
        "verified", inputs, 0.0, 1e-6, 31, 0.15, 9e-6, mutants_tried=31, before_bytes=480_000, after_bytes=160
    )
    failed = Candidate("vectorize_loop", diff, "differs by 0.5 at [3, 4] of grad_x on x float32[128, 64]")
    return Finding(
        code=code, name=name, category=category, severity=severity,  # type: ignore[arg-type]  # RULES holds such words
        subject=f"Slow{100 * file + block}", location=place,
        message=f"{name} in Slow{100 * file + block}: 40,960 operations, 40 % of the step, once per element of grad_x",
        why="every element goes through Python and the dispatcher on its own, and the tensors are small beside that",
        hints=("write it as one product of matrices: grad_output @ w.t()",),
        evidence=(f"loop function:{number % FUNCTIONS}",),
        candidates=(failed,) if number % 4 == 1 else (), fix=Fix(diff, proof) if number % 4 == 0 else None,
    )  # fmt: skip


def asked(session: Path) -> dict[str, tuple[list[str], dict[str, str], float]]:
    """What is typed, the environment beside the usual one, and the bound in seconds."""
    word = {"_GRADWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "gradwright explain GW3", "COMP_CWORD": "2"}
    started: dict[str, tuple[list[str], dict[str, str], float]] = {
        "python -c pass (of every figure below)": ([sys.executable, "-c", "pass"], {}, START_SECONDS),
        "gradwright --help": ([*GRADWRIGHT, "--help"], {}, START_SECONDS),
        "gradwright report --help": ([*GRADWRIGHT, "report", "--help"], {}, START_SECONDS),
        "a code, completed": (GRADWRIGHT, word, START_SECONDS),
        "gradwright rules": ([*GRADWRIGHT, "rules"], {}, REPORT_SECONDS),
        "diff of 500 findings with themselves": ([*GRADWRIGHT, "diff", *[str(session)] * 2], {}, REPORT_SECONDS),
    }
    for form in FORMATS:
        command = [*GRADWRIGHT, "report", str(session), "--exit-zero", "--format", form]
        started[f"report of 500 findings, {form}"] = command, {}, REPORT_SECONDS
    return started


def measured(command: list[str], environment: dict[str, str], rounds: int) -> tuple[list[float], int]:
    """Seconds of each round, and the bytes that are printed. Raises: CalledProcessError, if the command fails."""
    times, printed = [], b""
    for _ in range(rounds):
        started = time.perf_counter()
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
        times.append(time.perf_counter() - started)
        printed = done.stdout
    return times, len(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "session.json"
        session.write_text(to_json(made_up()), encoding="utf-8")
        for name, (command, environment, bound) in asked(session).items():
            times, printed = measured(command, environment, 1 if options.quick else options.rounds)
            rows[name] = {
                "seconds": round(statistics.median(times), 3),
                "fastest": round(min(times), 3),
                "slowest": round(max(times), 3),
                "bound_seconds": bound,
                "bytes": printed,
                "bound_bytes": REPORT_BYTES,
                "within": statistics.median(times) < bound and printed < REPORT_BYTES,
            }
            print(name, rows[name], flush=True)
        size = session.stat().st_size
    if not options.quick and not options.no_save:
        notes = [f"Seconds are those of a whole process. The session itself has {size:,} bytes."]
        save("how_fast_is_a_report", {"machine": describe_machine(), "results": rows, "notes": notes})
    sys.exit(1 if options.quick and not all(row["within"] for row in rows.values()) else 0)


if __name__ == "__main__":
    main()
