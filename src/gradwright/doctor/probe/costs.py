"""A trace becomes facts: operations per line, and the loops that dispatched them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradwright.doctor.probe.spending import Spent
from gradwright.doctor.probe.tracing import Counts, Instruction, Trace
from gradwright.doctor.session.facts import LineCost, LoopShape, OpsPerLine, Phase
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.dependence import carried_dependence
from gradwright.doctor.source.nests import LoopSpan, loops_around
from gradwright.doctor.source.places import line_in, location_in, relative, text_of_file

_FEWEST = 32  # operations in a loop below which nobody calls it slow
_LINES = 12
_WORTH_A_LINE = 0.01  # of a call: what Python needs to be told of, where nothing is dispatched


_UNTIMED = Spent()


@dataclass(frozen=True)
class Measured:
    """What is known of a phase besides its trace: seconds of one full-size call, its share of the watched time.

    ``shrunk``: it was traced on something smaller than what was called.
    """

    subject: str
    phase: Phase
    seconds: float
    share: float
    tried_on: str
    minimum_bytes: int
    full_operations: int | None = None
    shrunk: bool = False


def line_costs(trace: Trace, spent: Spent, seconds: float) -> tuple[LineCost, ...]:
    """By expression, heaviest first: those that dispatch most and those that take longest, then lines that dispatch
    nothing and take their time all the same."""
    costs = [
        LineCost(
            location=location_in(code, instruction, counts.line),
            operations=counts.operations,
            scalar_operations=counts.scalar_operations,
            bytes=counts.bytes,
            seconds=spent.expressions.get((code, instruction), 0.0),
        )
        for (code, instruction), counts in trace.instructions.items()
    ]
    costs.sort(key=lambda cost: -cost.operations)
    slowest = sorted(costs[_LINES:], key=lambda cost: -cost.seconds)[:_LINES]
    of_python = [
        LineCost(location=line_in(code, line), operations=0, scalar_operations=0, bytes=0, seconds=taken)
        for (code, line), taken in sorted(spent.lines.items(), key=lambda one: -one[1])[:_LINES]
        if taken > _WORTH_A_LINE * seconds
    ]
    return (*costs[:_LINES], *(cost for cost in slowest if cost.seconds), *of_python)


def operations_fact(trace: Trace, measured: Measured, spent: Spent = _UNTIMED) -> OpsPerLine:
    return OpsPerLine(
        id=f"operations {measured.phase} {measured.subject}",
        subject=measured.subject,
        phase=measured.phase,
        operations=trace.operations,
        bytes=trace.bytes,
        minimum_bytes=measured.minimum_bytes,
        seconds=spent.seconds or measured.seconds,
        tried_on=measured.tried_on,
        lines=line_costs(trace, spent, spent.seconds or measured.seconds),
        flops=trace.flops,
        shrunk=measured.shrunk,
    )


def loop_facts(trace: Trace, measured: Measured, replayed: Location | None = None) -> list[LoopShape]:
    """One fact per outermost loop that dispatched operations, itself or through what it calls in the same file.

    ``replayed``: the loop statement that was traced, where it was not a whole function; loops around it did not run.
    What a helper dispatches for a loop is booked on the helper's own line: such a loop is seen by its line counts.
    """
    nests: dict[tuple[str, LoopSpan], list[tuple[Instruction, Counts, tuple[LoopSpan, ...]]]] = {}
    for instruction, counts in trace.instructions.items():
        code = instruction[0]
        text = text_of_file(code.co_filename)
        around = loops_around(text, counts.line, code.co_firstlineno) if text else ()
        if replayed is not None and relative(code.co_filename) == replayed.path:
            around = tuple(loop for loop in around if not _is_around(loop, replayed))
        if around:
            nests.setdefault((code.co_filename, around[0]), []).append((instruction, counts, around))
    total = trace.operations or 1
    facts = []
    for (path, outer), members in nests.items():
        operations = sum(counts.operations for _, counts, _ in members)
        if operations < _FEWEST or not any(counts.bytes for _, counts, _ in members):
            continue  # few, or views alone: nothing there costs more than its dispatch
        (hot_code, hot_at), hot_counts, around = max(members, key=lambda member: member[1].operations)
        inner = around[-1]
        iterations = trace.lines.get((hot_code, inner.body_line), 0)
        share_of_phase = operations / total
        full = operations if measured.full_operations is None else round(measured.full_operations * share_of_phase)
        at = Location(
            location_in(hot_code, hot_at, hot_counts.line).path,
            outer.line,
            outer.column,
            outer.end_line,
            outer.end_column,
        )
        facts.append(
            LoopShape(
                id=f"loop {measured.phase} {path}:{outer.line} {measured.subject}",
                subject=measured.subject,
                phase=measured.phase,
                location=at,
                hot=location_in(hot_code, hot_at, hot_counts.line),
                iterations=iterations,
                operations=operations,
                views=sum(counts.views for _, counts, _ in members),
                scalar_operations=sum(counts.scalar_operations for _, counts, _ in members),
                per_element=_per_element([counts for _, counts, _ in members], len(around), iterations),
                full_operations=full,
                extrapolated=full != operations or not trace.complete,
                seconds=measured.seconds * share_of_phase,
                share_of_step=measured.share * share_of_phase,
                tried_on=measured.tried_on,
                carried=carried_dependence(outer.text),
            )
        )
    return facts


def _is_around(loop: LoopSpan, replayed: Location) -> bool:
    return loop.line < replayed.line and loop.end_line >= replayed.end_line


def _per_element(members: Sequence[Counts], levels: int, iterations: int) -> bool:
    """Whether a loop works on single elements: on hardly anything else, or, nested, towards one each round.

    A loop over layers, tasks or time steps gives a loss each round, which is weighted and summed: that is no such loop.
    """
    computing = sum(counts.operations - counts.views for counts in members)
    if 4 * sum(counts.scalar_operations for counts in members) >= 3 * computing:
        return True
    short = 2 * sum(counts.short_operations for counts in members) >= computing
    return levels > 1 and short and 2 * sum(counts.single_results for counts in members) >= iterations


def extrapolate(small: tuple[int, int], large: tuple[int, int], elements: int) -> int:
    """Operations at ``elements``, by the power law through two (elements, operations) pairs.

    >>> extrapolate((16, 32), (64, 128), 1_000_000)
    2000000
    """
    (n1, ops1), (n2, ops2) = small, large
    if n1 == n2 or not ops1 or not ops2:
        return ops2
    power = math.log(ops2 / ops1) / math.log(n2 / n1)
    grown: float = (elements / n2) ** power
    return round(ops2 * grown)
