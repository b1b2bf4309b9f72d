"""A plugin for pytest: tells of each test when it begins and when it is over, as ``children`` wants to hear it.

    GRADWRIGHT_EVENTS=events.jsonl GRADWRIGHT_ONLY=names.txt python -m pytest -p gpu.pytest_events ...

``GRADWRIGHT_ONLY`` names a file with the node ids that are run, a line each; without it all are. Where a test fails and
the device is lost to this process (a kernel broke its context, which no later call gets over) the process ends: the
tests behind are another one's.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpu.results import append_line

_began: dict[str, float] = {}
_reported: set[str] = set()
_failed: set[str] = set()


def _write(event: str, **data: Any) -> None:
    append_line(Path(os.environ["GRADWRIGHT_EVENTS"]), {"event": event, **data})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave those that were asked for."""
    only = os.environ.get("GRADWRIGHT_ONLY")
    if only:
        asked = set(Path(only).read_text("utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid in asked]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write("ended", name=report.nodeid, outcome="failed", why=_last_line(report), traceback=report.longreprtext)


def pytest_collection_finish(session: pytest.Session) -> None:
    _write("listed", names=[item.nodeid for item in session.items])


def pytest_runtest_logstart(nodeid: str) -> None:
    _began[nodeid] = time.perf_counter()
    _write("began", name=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The first phase that is not passed tells; of a test that passes it is the last one, tearing down."""
    if report.nodeid in _reported or (report.passed and report.when != "teardown"):
        return
    _reported.add(report.nodeid)
    if report.failed:
        _failed.add(report.nodeid)
    seconds = time.perf_counter() - _began[report.nodeid]
    why = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    _write(
        "ended",
        name=report.nodeid,
        outcome=report.outcome,
        seconds=round(seconds, 2),
        why=_last_line(report) if report.failed else why.removeprefix("Skipped: "),
        traceback=report.longreprtext if report.failed else "",
    )


def pytest_runtest_logfinish(nodeid: str) -> None:
    if nodeid in _failed and _is_device_lost():
        os._exit(3)


def _is_device_lost() -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:  # CUDA's errors are
        return True
    return False


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What was raised, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return next((line for line in text.splitlines() if line.strip()), "")
