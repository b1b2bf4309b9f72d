"""The folder of results of `make gpu`: each is a line of JSON in one file, on disk the moment it is known.

What comes back from a machine that is lent may be eight files in all, so there is a file for all results, one for all
that was printed, and the sessions of the doctor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["passed", "failed", "skipped", "hung", "died", "not run"]

RESULTS = "results.jsonl"
LOG = "log.txt"
FAILURES = "failures.txt"


@dataclass(frozen=True)
class Result:
    """What became of one thing that was to be done."""

    #: "machine", "doctor", "tests" or "figures".
    step: str
    #: The name of a script, a test or a figure.
    name: str
    #: "hung": ended at its time limit.  "died": its process ended.  "not run": no time was left, or it never began.
    outcome: Outcome
    #: Of the clock.
    seconds: float = 0.0
    #: One line: the error, or why it was not run.
    why: str = ""
    #: Of an error.
    traceback: str = ""
    #: What was found or measured.
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def is_fine(self) -> bool:
        """Nothing to mend and nothing to run another time."""
        return self.outcome in ("passed", "skipped")


class ResultFolder:
    """Where results are written.  ``folder`` is made if it isn't there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / LOG
        self._results = folder / RESULTS
        self._results.write_text("")

    def add(self, result: Result) -> None:
        """On disk when this returns."""
        append_line(self._results, asdict(result))


def append_line(path: Path, data: Mapping[str, Any]) -> None:
    """A line of JSON, on disk when this returns."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(data) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def read_results(folder: Path) -> Iterator[Result]:
    """In the order in which they became known.  A last line that was cut off is left out.

    Raises: FileNotFoundError.
    """
    for line in (folder / RESULTS).read_text("utf-8").splitlines():
        try:
            yield Result(**json.loads(line))
        except json.JSONDecodeError:
            return
