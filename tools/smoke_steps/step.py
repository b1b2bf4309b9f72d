"""A step of the smoke run: a function that does one thing users do, and raises where it doesn't come out right."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Outcome:
    """``fault``: what was raised and where, "" if nothing was."""

    name: str
    seconds: float
    fault: str = ""


def describe(run: Callable[[], object]) -> Step:
    """A function as a step; its docstring's first line is the name in the table."""
    return Step(str(run.__doc__).splitlines()[0].rstrip("."), run)


def run_steps(steps: Iterable[Step]) -> Iterator[Outcome]:
    """One after the other; a step that fails leaves the others running."""
    for step in steps:
        started = time.perf_counter()
        fault = ""
        try:
            step.run()
        except (Exception, SystemExit) as error:
            fault = f"{find_place(error)}: {type(error).__name__}: {error}"
        yield Outcome(step.name, time.perf_counter() - started, fault)


def find_place(error: BaseException) -> str:
    """The line of Gradwright that it came from; if none did, that of the step, else of anything."""
    frames = list(reversed(traceback.extract_tb(error.__traceback__)))
    for folder in (ROOT / "src", ROOT):
        for frame in frames:
            path = Path(frame.filename)
            if path.is_relative_to(folder) and "site-packages" not in path.parts:
                return f"{path.relative_to(ROOT)}:{frame.lineno}"
    return f"{frames[0].filename}:{frames[0].lineno}" if frames else "nowhere"
