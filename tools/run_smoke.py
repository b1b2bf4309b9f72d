"""The smoke run: one use of all that is public, in the Python that runs this. Exit code 1 if a step failed.

    python tools/run_smoke.py                  what failed, where, and how many steps passed
    python tools/run_smoke.py --into FILE      and each outcome as a line of JSON

Steps are under tools/smoke_steps: functions, a file a theme, and the examples of each public name's docstring.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import warnings
from collections.abc import Iterable
from typing import TextIO

from smoke_steps.all_steps import list_steps
from smoke_steps.step import Outcome, Step, run_steps


def run_smoke(steps: Iterable[Step], into: TextIO | None = None) -> int:
    """Run the steps and print what failed; the exit code."""
    started = time.perf_counter()
    outcomes: list[Outcome] = []
    for outcome in run_steps(steps):
        outcomes.append(outcome)
        if into is not None:
            print(json.dumps(dataclasses.asdict(outcome)), file=into, flush=True)
        if outcome.fault:
            print(f"FAILED  {outcome.name}\n        {outcome.fault}", flush=True)
        if outcome.not_tried:
            print(f"not tried  {outcome.name}\n        {outcome.not_tried}", flush=True)
    failed = sum(bool(outcome.fault) for outcome in outcomes)
    not_tried = sum(bool(outcome.not_tried) for outcome in outcomes)
    passed = len(outcomes) - failed - not_tried
    left_out = f", {not_tried} not tried" if not_tried else ""
    print(f"smoke: {passed} passed, {failed} failed{left_out} in {time.perf_counter() - started:.0f} s")
    return 1 if failed or not outcomes else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=argparse.FileType("w"), help="a file for the outcomes, a line of JSON each")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's own, of which each version has others
    return run_smoke(list_steps(), given.into)


if __name__ == "__main__":
    sys.exit(main())
