"""What page faults cost on this machine: a trial, where a backward of the script's meets many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.session.facts import Fact, FreshBuffers, PageFaults
from gradwright.doctor.session.model import NotExamined
from gradwright.ground.forked import torch_survives_fork
from gradwright.kernels.freed_memory import retain_freed_memory

_FEWEST = 256  # 1 MiB
_AT_MOST_SECONDS = 5e-6  # a fault takes, anywhere; what can't matter at that price is not tried
_SHARE = 0.1
_WHAT = "what page faults cost"


def probe_page_faults(seen: Sequence[Fact]) -> Iterator[Fact | NotExamined]:
    """A fresh buffer before and after ``retain_freed_memory``, in a child: it can't be undone. Cost: a second."""
    if not any(isinstance(fact, PageFaults) and _may_matter(fact) for fact in seen):
        return
    if not torch_survives_fork():
        yield NotExamined(_WHAT, "no forked children here, and the trial can't be undone")
        return
    tried = attempt(lambda: retain_freed_memory(measure=True), Limits(20.0))
    if tried.value is None:
        yield NotExamined(_WHAT, tried.why)
    elif not tried.value.works:
        yield NotExamined(_WHAT, f"freed memory can't be made to stay here: {tried.value.reason}")
    else:
        cost = tried.value.measured[0]
        yield FreshBuffers(
            id="fresh buffers",
            subject="script",
            buffer_bytes=cost.before.buffer_bytes,
            faults=cost.before.faults,
            seconds=cost.before.seconds,
            kept_seconds=cost.after.seconds,
        )


def _may_matter(fact: PageFaults) -> bool:
    return fact.faults >= _FEWEST and fact.faults * _AT_MOST_SECONDS >= _SHARE * fact.seconds
