"""A pytest plugin: what a run of the tests took, by folder, by file and by test, into tests/durations.json.

`make durations` writes it. The tests read it: what takes longest begins first (tests/conftest.py), so that no worker is
left with a long test when the others have nothing more to do; and `make quick` knows by it what it has time for.

Seconds are those of the wall clock, on the machine that is named; a folder's seconds are those of its tests together.
"cpu seconds" are those of all processes of the run: what else the machine did is not in them. "doctor runs" are runs of
the doctor that were made, and not read again.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import defaultdict
from pathlib import Path

import pytest

OUT = Path(__file__).parents[1] / "tests" / "durations.json"
SLOW = 3.0  # seconds, from which on a test is named


class Durations:
    def __init__(self) -> None:
        self._began = time.time()
        self._seconds: dict[str, float] = defaultdict(float)
        self._doctor_runs: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _without_group(report.nodeid)
        self._seconds[name] += report.duration
        if report.when == "teardown":
            self._doctor_runs[name] = sum(name == "doctor run" for name, _ in report.user_properties)

    @pytest.hookimpl(trylast=True)  # when the workers have ended
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            OUT.write_text(json.dumps(self.summary(), indent=1, ensure_ascii=False) + "\n")

    def summary(self) -> dict[str, object]:
        folders: dict[str, dict[str, float]] = defaultdict(lambda: {"tests": 0, "seconds": 0, "doctor runs": 0})
        files: dict[str, float] = defaultdict(float)
        for name, seconds in self._seconds.items():
            files[name.partition("::")[0]] += seconds
            folder = folders[_folder_of(name)]
            folder["tests"] += 1
            folder["seconds"] += seconds
            folder["doctor runs"] += self._doctor_runs.get(name, 0)
        longest_first = sorted(self._seconds.items(), key=lambda item: -item[1])
        return {
            "machine": f"{_cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "date": time.strftime("%Y-%m-%d"),
            "seconds": round(time.time() - self._began),
            "cpu seconds": round(sum(os.times()[:4])),
            "tests": len(self._seconds),
            "doctor runs": sum(self._doctor_runs.values()),
            "folders": {
                name: {key: round(value) for key, value in folders[name].items()}
                for name in sorted(folders, key=lambda name: -folders[name]["seconds"])
            },
            "files": {name: round(files[name], 1) for name in sorted(files)},
            "slow tests": {name: round(seconds, 1) for name, seconds in longest_first if seconds >= SLOW},
        }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _without_group(name: str) -> str:
    """A test's own name; xdist adds "@group" to those that have to run in one worker.

    >>> _without_group("tests/test_a.py::test_b[x@y]@one worker"), _without_group("tests/test_a.py::test_b[x@y]")
    ('tests/test_a.py::test_b[x@y]', 'tests/test_a.py::test_b[x@y]')
    """
    own, _, group = name.rpartition("@")
    return name if "]" in group or not own else own


def _folder_of(name: str) -> str:
    """Of a test its folder below tests, or its file at the top; of examples in docstrings, src."""
    parts = name.partition("::")[0].split("/")
    return parts[0] if parts[0] == "src" else "/".join(parts[:-1]) if len(parts) > 2 else "/".join(parts)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # what workers report comes here
        config.pluginmanager.register(Durations())
