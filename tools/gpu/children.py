"""A list of things that child processes do one after the other, where any of them may hang or take its process along.

A child is handed the names that are left and tells of each in a file of events, a line of JSON each:

    {"event": "listed", "names": [...]}                 optional: what there is to do, where the parent doesn't know
    {"event": "began", "name": ...}
    {"event": "ended", "name": ..., "outcome": "passed" | "failed" | "skipped", "seconds": ..., "why": ..., ...}

What began and doesn't end in time is ended with its process, and another child goes on behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.results import Outcome, Result

POLL_SECONDS = 0.05
SHOWN_CHARACTERS = 4000


@dataclass(frozen=True)
class Limits:
    """Seconds of the clock."""

    #: When all of it has to be over, by the clock.
    deadline: float
    #: From the start of a child, or from the end of one thing, to the begin of the next.
    start: float
    #: From the begin of one thing to its end.
    each: float


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    events: Path
    output: Path
    read: int = 0

    def new_events(self) -> Iterator[dict[str, Any]]:
        """Whole lines that were written since the last look."""
        if not self.events.exists():
            return
        with self.events.open("rb") as stream:
            stream.seek(self.read)
            block = stream.read()
        whole = block.rpartition(b"\n")[0]
        self.read += len(whole) + (b"\n" in block)
        for line in whole.splitlines():
            yield json.loads(line)

    def end(self) -> int:
        """Kill it with all that it started; its exit code, negative for a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def last_output(self) -> str:
        return self.output.read_text("utf-8", "replace")[-SHOWN_CHARACTERS:]


def run_in_children(
    step: str,
    command: Callable[[Sequence[str] | None, Path], Sequence[str | Path]],
    names: Sequence[str] | None,
    limits: Limits,
    folder: Path,
    log: Callable[[bytes], object],
    environment: Mapping[str, str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:
    """Do everything; a result for each name, the moment it is known.

    ``command(names, events)``: of a child that does these, all that there is where ``names`` is None (it lists them
    then).  ``folder``: for events and output, empty.  ``log``: is handed what each child printed.
    """
    left = None if names is None else list(names)
    number = 0
    while left is None or left:
        number += 1
        events, output = folder / f"events-{number}.jsonl", folder / f"output-{number}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [str(word) for word in command(left, events)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        child = _Child(process, events, output)
        before = None if left is None else len(left)
        left = yield from _follow(step, child, left, limits, clock)
        log(output.read_bytes())
        if len(left) == before:  # a child that did nothing: the next one won't either
            why = f"its process ended before it began: {child.process.returncode}"
            yield from (Result(step, name, "not run", why=why, traceback=child.last_output()) for name in left)
            return


def _follow(
    step: str, child: _Child, left: list[str] | None, limits: Limits, clock: Callable[[], float]
) -> Generator[Result, None, list[str]]:
    """Results of one child; returns the names that it left."""
    running, since = "", clock()
    while True:
        is_over = child.process.poll() is not None  # before the look at events: those of its end are seen
        for event in child.new_events():
            since = clock()
            if event["event"] == "listed":
                left = list(event["names"])
            elif event["event"] == "began":
                running = event["name"]
            else:
                running = ""
                if left is not None and event["name"] in left:
                    left.remove(event["name"])
                yield Result(step, **{key: value for key, value in event.items() if key != "event"})
        now = clock()
        limit = limits.each if running else limits.start
        if not is_over and now < min(limits.deadline, since + limit):
            time.sleep(POLL_SECONDS)
            continue
        code = child.end()
        if left is None:
            yield Result(step, "listing", "died", why=f"nothing was listed: {code}", traceback=child.last_output())
            return []
        if now >= limits.deadline:
            yield from (Result(step, name, "not run", why="the time of this step was over") for name in left)
            return []
        if running:
            left.remove(running)
            outcome: Outcome = "died" if is_over else "hung"
            why = _describe_exit(code) if is_over else f"not over after {limit:.0f} s"
            yield Result(step, running, outcome, now - since, why, child.last_output())
        return left


def _describe_exit(code: int) -> str:
    """
    >>> _describe_exit(-11), _describe_exit(3)
    ('its process was ended by SIGSEGV', 'its process ended with exit code 3')
    """
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"
