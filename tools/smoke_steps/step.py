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


class NotTried(Exception):
    """Raised by a step where torch itself fails at what Gradwright would be tried on; the message says at what."""


@dataclass(frozen=True)
class Outcome:
    """``fault``: what was raised and where, "" if nothing was; ``not_tried``: why the step could not be taken."""

    name: str
    seconds: float
    fault: str = ""
    not_tried: str = ""


def describe(run: Callable[[], object]) -> Step:
    """A function as a step; its docstring's first line is the name in the table."""
    return Step(str(run.__doc__).splitlines()[0].rstrip("."), run)


def run_steps(steps: Iterable[Step]) -> Iterator[Outcome]:
    """One after the other; a step that fails leaves the others running."""
    for step in steps:
        started = time.perf_counter()
        fault = not_tried = ""
        try:
            step.run()
        except NotTried as reason:
            not_tried = str(reason)
        except (Exception, SystemExit) as error:
            fault = f"{find_place(error)}: {type(error).__name__}: {error}"
        yield Outcome(step.name, time.perf_counter() - started, fault, not_tried)


def find_place(error: BaseException) -> str:
    """The line of Gradwright that it came from; if none did, that of the step, else of anything."""
    frames = list(reversed(traceback.extract_tb(error.__traceback__)))
    for folder in (ROOT / "src", ROOT):
        for frame in frames:
            path = Path(frame.filename)
            if path.is_relative_to(folder) and "site-packages" not in path.parts:
                return f"{path.relative_to(ROOT)}:{frame.lineno}"
    return f"{frames[0].filename}:{frames[0].lineno}" if frames else "nowhere"
