"""Everything that waits for a GPU, in eight minutes at most: `make gpu`, on a machine that has one.

    python3 tools/run_gpu.py                          results into the folder that the variable OUT names
    python3 tools/run_gpu.py --results FOLDER
    GRADWRIGHT_GPU_DRY=1 python3 tools/run_gpu.py     the same on the CPU, with small sizes

The steps: the doctor on three scripts, the tests marked gpu, the figures; each has a time limit, and what fails or
hangs stops nothing else. Each result is on disk the moment it is known: `results.jsonl`, the doctor's sessions, the
log. At the end `failures.txt` says what is missing for a next time. `make gpu-read` makes something of it. The exit
code is 1 if anything failed or was not run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpu.failures import write_failures
from gpu.results import Result, ResultFolder
from gpu.setting import ROOT, Setting, choose_device
from gpu.steps import LISTS, STEPS, Step


def run_steps(steps: Sequence[Step], setting: Setting) -> list[Result]:
    """All of them, whatever happens in one; their results are in the folder as they become known."""
    found = []
    for step in steps:
        started = time.monotonic()
        try:
            for result in step.run(setting, step.seconds * setting.patience):
                found.append(result)
                setting.results.add(result)
                print(f"{result.outcome:8}{result.name}  {result.seconds:.1f} s  {result.why}", flush=True)
        except Exception as error:  # a fault of ours: the other steps are not the worse for it
            took = time.monotonic() - started
            result = Result(step.name, step.name, "failed", took, repr(error), traceback.format_exc())
            found.append(result)
            setting.results.add(result)
        print(f"--- {step.name}: {time.monotonic() - started:.0f} s", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(os.environ.get("OUT") or ROOT / ".gpu-results"))
    parser.add_argument("--list", action="store_true", help="run nothing: import all, list what there is to run")
    given = parser.parse_args()
    folder = given.results.absolute()
    work = Path(tempfile.mkdtemp(prefix="gradwright-gpu-"))
    os.chdir(ROOT)
    sys.path.append(str(ROOT))  # for tests.on_gpu.order
    started = time.monotonic()
    try:
        setting = Setting(choose_device(), ResultFolder(folder), started, work)
        results = run_steps(LISTS if given.list else STEPS, setting)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("\n".join(write_failures(results, folder)))
    counts = Counter(result.outcome for result in results)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(f"gpu ({setting.device}): {said} in {time.monotonic() - started:.0f} s; results in {folder}")
    return 0 if all(result.is_fine for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
