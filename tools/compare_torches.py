"""The smoke run on the newest torch that pip installs and on the oldest that Gradwright supports: `make test-newest`.

    python tools/compare_torches.py                     newest and oldest
    python tools/compare_torches.py 2.10.0 2.12.1       others

Each torch has an environment of its own (tools/with_torch.py), both run at once, a core for each. A table shows each
step that did not pass everywhere; the exit code is 1 if there is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from smoke_steps.step import Outcome
from torch_environment.environment import find_version, prepare_environment

SMOKE = Path(__file__).with_name("run_smoke.py")


@dataclass(frozen=True)
class Run:
    """What the smoke run came to with one torch; ``ended``: its exit code, negative for a signal."""

    title: str
    outcomes: dict[str, Outcome]
    ended: int
    printed: str


def run_with(wanted: str) -> Run:
    """Make the environment, run the steps there."""
    version = find_version(wanted)
    environment = prepare_environment(version)
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder, "outcomes")
        done = subprocess.run(
            [environment.python, SMOKE, "--into", into],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = into.read_text("utf-8").splitlines() if into.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    title = f"{wanted} {version}" if wanted != version else version
    return Run(title, {outcome.name: outcome for outcome in outcomes}, done.returncode, done.stdout)


def print_table(runs: list[Run]) -> None:
    """A row for each step that did not pass everywhere, a column for each torch; then what failed, in words."""
    names = list(dict.fromkeys(name for run in runs for name in run.outcomes))
    rows = [(name, [show(run.outcomes.get(name)) for run in runs]) for name in names]
    rows = [(name, shown) for name, shown in rows if set(shown) != {"passed"}]
    width = max(map(len, [name for name, _ in rows] + ["steps that passed"]))
    print(f"{'':{width}}  " + "  ".join(f"{run.title:15}" for run in runs))
    for name, shown in rows:
        print(f"{name:{width}}  " + "  ".join(f"{each:15}" for each in shown))
    passed = [sum(show(outcome) == "passed" for outcome in run.outcomes.values()) for run in runs]
    print(f"{'steps that passed':{width}}  " + "  ".join(f"{count:<15}" for count in passed))
    for run in runs:
        for outcome in run.outcomes.values():
            if outcome.not_tried:
                print(f"\n{run.title}: {outcome.name} was not tried: {outcome.not_tried}")
        if run.ended:
            print(f"\n{run.title} ended with {run.ended}:\n{run.printed.strip()}")


def show(outcome: Outcome | None) -> str:
    """In one word; a step after the death of the process was not run."""
    if outcome is None:
        return "not run"
    if outcome.not_tried:
        return "not tried"
    return "FAILED" if outcome.fault else "passed"


def main() -> int:
    wanted = sys.argv[1:] or ["newest", "oldest"]
    with ThreadPoolExecutor(len(wanted)) as pool:
        runs = list(pool.map(run_with, wanted))
    print_table(runs)
    return 1 if any(run.ended for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
