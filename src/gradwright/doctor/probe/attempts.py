"""One trial, within its limits, where nothing that it does can hurt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from gradwright.doctor.probe.collectives import without_peers
from gradwright.doctor.process_group import answering_as_in_the_run
from gradwright.doctor.source.places import home
from gradwright.ground.forked import Outcome, in_child, torch_survives_fork
from gradwright.ground.late_imports import import_what_cotangents_need
from gradwright.ground.watchdog import under_watchdog

T = TypeVar("T")

WHY_NOT = "a GPU is in use, autograd has threads of its own, or this system has no fork"
NOT_APART = f"no forked children here ({WHY_NOT}): they are tried in this process, within a time limit"


@dataclass(frozen=True)
class Limits:
    """Of one trial: seconds, and bytes of memory beyond the script's own."""

    seconds: float = 10.0
    memory_bytes: int = 4 << 30


def attempt(work: Callable[[], T], limits: Limits) -> Outcome[T]:
    """In a forked child where that can be; in this process, under a watchdog, otherwise (the report says so)."""

    def as_in_the_run() -> T:
        with answering_as_in_the_run():
            return work()

    if torch_survives_fork():
        import_what_cotangents_need()  # here once, and not in every child
        outcome = in_child(
            lambda: without_peers(as_in_the_run), seconds=limits.seconds, memory_bytes=limits.memory_bytes
        )
    else:
        outcome = under_watchdog(as_in_the_run, seconds=limits.seconds)
    return replace(outcome, why=outcome.why.replace(home(), ""))  # paths as reports name them
