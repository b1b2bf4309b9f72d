"""How much longer does a script take while it is watched?

Each subject runs plain (`python subject.py`) and watched (the patient), in turn, so that a noisy machine is noisy for
both; the time is that from the start of the process to the last line that the script prints. The ratio of the medians
is the figure; the aim is at most 1.3. What the script prints (its results to the last bit) must be equal. Examining
comes after, and is another benchmark's question.

    python benchmarks/how_much_does_watching_cost.py [--rounds 5]
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
from pathlib import Path

from recording import describe_machine, save

from gradwright.doctor.conduct import start_command
from gradwright.doctor.options import Options

SUBJECTS = {
    "element loop in a Function, 100 x 100": "element_loop_function.py",
    "MLP training loop": "mlp.py",
    "loop over autograd.grad": "gradient_loop.py",
    "element loop in a plain function": "element_loop_plain.py",
}
AIM = 1.3


def until_last_line(command: list[str]) -> tuple[float, str]:
    """Wall time from the start of the process to the last line that the script prints, and all that it printed."""
    started = time.perf_counter()
    lines, ended = [], started
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            ended = time.perf_counter()
    return ended - started, "".join(lines)


def plain(script: Path) -> tuple[float, str]:
    return until_last_line([sys.executable, str(script)])


def watched(script: Path) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as folder:
        return until_last_line(start_command(Path(folder) / "journal", Options(target=str(script), to_end=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    results = {}
    for question, name in SUBJECTS.items():
        script = Path(__file__).parent / "subjects" / name
        times: tuple[list[float], list[float]] = ([], [])
        outputs = set()
        for number in range(rounds):
            print(f"{question}: round {number + 1} of {rounds}", file=sys.stderr)
            for kind, measure in enumerate((plain, watched)):
                seconds, printed = measure(script)
                times[kind].append(seconds)
                outputs.add(printed)
        medians = [statistics.median(column) for column in times]
        results[question] = {
            "plain_seconds": round(medians[0], 3),
            "watched_seconds": round(medians[1], 3),
            "ratio": round(medians[1] / medians[0], 3),
            "aim": AIM,
            "same_results": len(outputs) == 1,
            "rounds": rounds,
        }
    save("how_much_does_watching_cost", {"machine": describe_machine(), "results": results})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
