"""A callable or module as a whole: is the gradient that autograd gives for it right, and does it loop over elements?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gradwright import checking
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.costs import Measured, loop_facts, operations_fact
from gradwright.doctor.probe.shrink import describe, fresh
from gradwright.doctor.probe.spending import or_told, spent_in_calls
from gradwright.doctor.probe.tracing import distinct_bytes, trace
from gradwright.doctor.probe.verdicts import BESIDE_VALUE, verdict_facts
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import NotExamined, Subject
from gradwright.ground import clock


def probe_callable(
    subject: Subject, fn: Any, inputs: tuple[Any, ...], names: tuple[str, ...]
) -> Iterator[Fact | NotExamined]:
    """Facts about ``fn`` at ``inputs``, which are called ``names``."""
    limits = Limits()
    wanted = tuple(isinstance(item, Tensor) and item.requires_grad for item in inputs)
    if any(wanted):
        judged = attempt(
            lambda: checking.judge_values(fn, inputs, wanted, names=names, deadline=clock.now() + limits.seconds),
            limits,
        )
        yield from verdict_facts(
            judged.value or (),
            subject=subject.id,
            specimen="",
            tried_on=describe(inputs),
            untried=((BESIDE_VALUE, "made of custom Functions alone; gw.check makes them of a callable, too"),),
        )
        if judged.how != "returned":
            yield NotExamined(f"the gradient of {subject.name}", judged.why)
    cost = attempt(lambda: _cost(subject, fn, inputs), limits)
    if cost.how == "returned":
        yield from cost.value or ()
    else:
        yield NotExamined(f"the cost of {subject.name} per line", cost.why)


def _cost(subject: Subject, fn: Any, inputs: tuple[Any, ...]) -> list[Fact | NotExamined]:
    given = fresh(inputs)
    started = time.perf_counter()
    with torch.no_grad():
        result = fn(*fresh(inputs))
    seconds = time.perf_counter() - started
    found = trace(lambda: fn(*given), seconds=3.0)
    measured = Measured(
        subject=subject.id,
        phase="forward",
        seconds=seconds,
        share=1.0,
        tried_on=describe(inputs),
        minimum_bytes=distinct_bytes(given, result),
    )

    def called() -> Callable[[], Any]:
        mine = fresh(inputs)
        return lambda: fn(*mine)

    (taken,), told = or_told(lambda: [spent_in_calls(called, found, seconds)], subject.name, phases=1)
    return [operations_fact(found, measured, taken), *loop_facts(found, measured), *told]
