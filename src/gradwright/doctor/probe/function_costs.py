"""What a Function's forward and backward cost: operations, bytes and seconds by line, and plain autograd beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from gradwright import checking
from gradwright.doctor.observed import FunctionUse, Kept
from gradwright.doctor.probe.attempts import Limits, attempt
from gradwright.doctor.probe.costs import Measured, extrapolate, loop_facts, operations_fact
from gradwright.doctor.probe.judged import Judged
from gradwright.doctor.probe.line_seconds import Line
from gradwright.doctor.probe.phases import grown_lines, time_phases, traces
from gradwright.doctor.probe.shrink import describe, elements
from gradwright.doctor.probe.sizing import Sizes
from gradwright.doctor.probe.spending import Spent, or_told, spent
from gradwright.doctor.probe.tracing import Trace
from gradwright.doctor.session.facts import Fact, LoopShape, PlainTwin
from gradwright.doctor.session.model import NotExamined
from gradwright.ground import clock
from gradwright.ground.clock import Stopwatch

# Beyond these a call is not timed whole, but on what was traced.
_OPERATIONS, _SECONDS = 20_000, 0.5
_FEWEST_ROUNDS, _MOST_ROUNDS, _SECONDS_BESIDE = 5, 60, 0.4  # of a Function and plain autograd, each in turn


def costs_of_function(
    use: FunctionUse, kept: Kept, chosen: Sizes, share: Callable[[float], float], judged: Judged, limits: Limits
) -> Iterator[Fact | NotExamined]:
    """Facts about the cost of a Function on one specimen, each from a forked child of its own.

    Plain autograd stands beside one that is right and has no loop: of others nobody asks whether they are needed.
    """
    traced = attempt(lambda: _trace_both(use, kept, chosen, share), limits)
    if traced.how != "returned" or traced.value is None:
        yield NotExamined(f"the cost of {use.subject.name} per line", traced.why)
        return
    yield from traced.value
    loops = any(isinstance(fact, LoopShape) for fact in traced.value)
    if chosen.smaller is None and use.subject.origin != "library" and judged.all_right() and not loops:
        twin = attempt(lambda: _beside_plain(use, kept), limits)
        if twin.how == "returned" and twin.value is not None:
            yield twin.value


def _trace_both(use: FunctionUse, kept: Kept, chosen: Sizes, share: Callable[[float], float]
                ) -> list[Fact | NotExamined]:  # fmt: skip
    args = chosen.traced
    found, needed = traces(use.function, args, kept.wanted, kept.used_outputs)
    smaller = None
    if chosen.smaller is not None:
        smaller = traces(use.function, chosen.smaller, kept.wanted, kept.used_outputs)[0]
    measured = []
    for number, phase in enumerate(found):
        calls = use.backward_calls if number else use.forward_calls
        total = use.backward_seconds if number else use.forward_seconds
        operations = None
        if smaller is not None and chosen.smaller is not None:
            few = (elements(chosen.smaller), smaller[number].operations)
            operations = extrapolate(few, (elements(args), phase.operations), elements(kept.args))
        measured.append(
            Measured(
                subject=use.subject.id,
                phase="backward" if number else "forward",
                seconds=total / max(1, calls),
                share=share(total),
                tried_on=describe(args),
                minimum_bytes=needed[number],
                full_operations=operations,
                shrunk=smaller is not None,
            )
        )
    name = use.subject.name
    times, told = or_told(lambda: _times(use, kept, chosen, found, smaller, measured), name, phases=2)
    facts: list[Fact | NotExamined] = []
    for phase, known, taken in zip(found, measured, times, strict=True):
        facts += operations_fact(phase, known, taken), *loop_facts(phase, known)
    return [*facts, *told]


def _times(
    use: FunctionUse,
    kept: Kept,
    chosen: Sizes,
    found: Sequence[Trace],
    smaller: Sequence[Trace] | None,
    measured: Sequence[Measured],
) -> list[Spent]:
    """On the specimen itself where a call is short; else on what was traced, as often as the lines run in a call.

    A short call takes what it took here, again and again: in the run the first of them paid for what later ones had.
    """
    args, grown = kept.args, [dict[Line, float](), dict[Line, float]()]
    operations = sum(known.full_operations or 0 for known in measured)
    if smaller is not None and (operations > _OPERATIONS or sum(known.seconds for known in measured) > _SECONDS):
        args, few = chosen.traced, elements(chosen.smaller or ())
        grown = [
            grown_lines((few, small), (elements(args), phase), elements(kept.args))
            for small, phase in zip(smaller, found, strict=True)
        ]
    taken, of_operations = time_phases(use.function, args, kept.wanted, found, kept.used_outputs)
    seconds = [
        mine.all if args is kept.args and mine.complete else known.seconds
        for mine, known in zip(taken, measured, strict=True)
    ]
    each = zip(found, taken, seconds, of_operations, grown, strict=True)
    return [spent(phase, mine, real, of_operations=one, grown=many) for phase, mine, real, one, many in each]


def _beside_plain(use: FunctionUse, kept: Kept) -> PlainTwin | None:
    """Forward and backward of the Function and of plain autograd through its forward, interleaved.

    A few times where plain autograd saves more for its backward: then the Function is needed, however long they take.
    """
    twin = checking.plain_twin(use.function, kept.args, kept.wanted, deadline=clock.now() + 2.0)
    if not twin.same_gradient:
        return None
    function_bytes, plain_bytes = (checking.saved_bytes(one) for one in (twin.function_forward, twin.plain_forward))
    most = _MOST_ROUNDS if plain_bytes <= function_bytes else _FEWEST_ROUNDS
    rounds: tuple[list[float], list[float]] = ([], [])
    until = clock.now() + _SECONDS_BESIDE
    while len(rounds[0]) < _FEWEST_ROUNDS or (clock.now() < until and len(rounds[0]) < most):
        for seconds, call in zip(rounds, (twin.function_step, twin.plain_step), strict=True):
            watch = Stopwatch()
            call()
            seconds.append(watch.seconds())
        if clock.now() > until + 2.0:
            break
    return PlainTwin(
        id=f"plain {use.subject.id}",
        subject=use.subject.id,
        same_gradient=twin.same_gradient,
        function_seconds=statistics.median(rounds[0]),
        plain_seconds=statistics.median(rounds[1]),
        function_saved_bytes=function_bytes,
        plain_saved_bytes=plain_bytes,
        tried_on=describe(kept.args),
    )
