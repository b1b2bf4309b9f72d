"""How long does the doctor take beyond the script itself?

Each small example (those that have a golden report) runs plain and under `gradwright diagnose` with its default
options, as a user would; the difference of the wall times is the doctor's own. The aim is at most 30 s for each.

    python benchmarks/how_long_does_the_doctor_take.py [--rounds 1]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recording import describe_machine, save

EXAMPLES = Path(__file__).parents[1] / "examples"
AIM_SECONDS = 30.0


def seconds_of(command: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, capture_output=True)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    results = {}
    for golden in sorted(EXAMPLES.glob("*/*.golden.txt")):
        script = golden.with_name(golden.name.replace(".golden.txt", ".py"))
        name = str(script.relative_to(EXAMPLES))
        times: dict[str, list[float]] = {"plain": [], "diagnosed": []}
        for _ in range(rounds):
            print(name, file=sys.stderr)
            times["plain"].append(seconds_of([sys.executable, str(script)]))
            times["diagnosed"].append(seconds_of([sys.executable, "-m", "gradwright", "diagnose", str(script)]))
        plain, diagnosed = (statistics.median(column) for column in times.values())
        results[name] = {
            "plain_seconds": round(plain, 2),
            "diagnosed_seconds": round(diagnosed, 2),
            "beyond_seconds": round(diagnosed - plain, 2),
            "aim_seconds": AIM_SECONDS,
            "rounds": rounds,
        }
    save("how_long_does_the_doctor_take", {"machine": describe_machine(), "results": results})
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
