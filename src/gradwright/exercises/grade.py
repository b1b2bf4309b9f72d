"""``python -m gradwright.exercises.grade NUMBER FILE --journal JOURNAL``: the process in which a file is graded."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from pathlib import Path

from gradwright.exercises.catalog import exercise_of


def main() -> int:
    parser = argparse.ArgumentParser(description="Grade one file. `gradwright exercise` is the way to call this.")
    parser.add_argument("number", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    exercise = exercise_of(asked.number)
    assert exercise is not None
    seed = int.from_bytes(os.urandom(2), "big") if asked.seed is None else asked.seed
    with open(asked.journal, "a", encoding="utf-8") as journal:

        def tell(**line: object) -> None:
            journal.write(json.dumps(line) + "\n")
            journal.flush()

        try:
            from gradwright.exercises.grading.judge import judge
            from gradwright.exercises.grading.limits import Limits

            limits = Limits(asked.seconds, asked.file, tell, seed=seed)
            outcome = judge(exercise, asked.file, seed=seed, limits=limits)
        except Exception:
            tell(crash=traceback.format_exc())
            return 3
        tell(outcome=outcome.to_data())
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    status = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)  # threads that the learner's file started are waited for by nobody
