"""What was timed and what was counted, put together: the seconds of a real call, expression by expression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gradwright.checking.chance import reproducible
from gradwright.doctor.probe.line_seconds import Line, Taken, several, time_call
from gradwright.doctor.probe.operation_seconds import time_operations
from gradwright.doctor.probe.tracing import Counts, Instruction, Trace
from gradwright.doctor.session.model import NotExamined
from gradwright.ground.forked import torch_survives_fork

_SECONDS = 0.7  # of one call on the clock
_SECONDS_OF_OPERATIONS = 0.3


@dataclass(frozen=True)
class Spent:
    """``seconds`` of one call, and what of it went to ``expressions``, which dispatch operations, and to ``lines``,
    which dispatch none; 0 where nothing was timed."""

    seconds: float = 0.0
    expressions: Mapping[Instruction, float] = field(default_factory=dict)
    lines: Mapping[Line, float] = field(default_factory=dict)


def several_on_a_line(trace: Trace) -> bool:
    """Whether the time of some line has to be divided between expressions."""
    return any(len(found) > 1 for found in _by_line(trace).values())


def spent(
    trace: Trace,
    taken: Taken,
    seconds: float,
    *,
    of_operations: Mapping[Instruction, float] | None = None,
    grown: Mapping[Line, float] | None = None,
) -> Spent:
    """``seconds`` of a real call, divided as a call on the clock was: the sum is less by what was left to Python.

    Expressions on one line share its time as ``of_operations`` has it, or by how many they dispatch where it does not
    know them. ``grown``: how many times as often a line runs in the real call. Of a call that was cut off nothing is
    said of what would have come: its seconds are told as they were.
    """
    if not trace.complete and not trace.instructions:
        return Spent()
    own = {line: value * (grown or {}).get(line, 1.0) for line, value in taken.lines.items()}
    whole = sum(own.values()) + taken.rest
    if whole <= 0.0:
        return Spent()
    times = seconds / whole if taken.complete else min(1.0, seconds / whole)
    expressions: dict[Instruction, float] = {}
    by_line = _by_line(trace)
    for line, value in own.items():
        found = by_line.get(line, {})
        weights = {key: (of_operations or {}).get(key, 0.0) for key in found}
        if not all(weights.values()):
            weights = {key: float(counts.operations) for key, counts in found.items()}
        for key, weight in weights.items():
            expressions[key] = times * value * weight / sum(weights.values())
    lines = {line: times * value for line, value in own.items() if line not in by_line}
    return Spent(seconds, expressions, lines)


def spent_in_calls(prepare: Callable[[], Callable[[], object]], trace: Trace, seconds: float) -> Spent:
    """``seconds`` of a real call, by a few calls of what ``prepare`` hands out, each on the clock.

    Nothing where there is no process for it to be tried in: what it changes (a module's buffers) would stay changed.
    Raises what they raise.
    """
    if not torch_survives_fork():
        return Spent()
    (taken,) = several(lambda own: [time_call(prepare(), _SECONDS, files=trace.files, own=own)])
    with reproducible(0):
        of_operations = time_operations(prepare(), _SECONDS_OF_OPERATIONS) if several_on_a_line(trace) else {}
    return spent(trace, taken, seconds, of_operations=of_operations)


def or_told(times: Callable[[], Sequence[Spent]], name: str, phases: int) -> tuple[Sequence[Spent], list[NotExamined]]:
    """``times()``; where a call raises although an earlier one did not, why nothing is known."""
    try:
        return times(), []
    except Exception as error:  # it is someone else's code
        why = f"called again, it raised {type(error).__name__}: {error}".splitlines()[0]
        return [Spent()] * phases, [NotExamined(f"the time of {name} per line", why)]


def _by_line(trace: Trace) -> dict[Line, dict[Instruction, Counts]]:
    found: dict[Line, dict[Instruction, Counts]] = defaultdict(dict)
    for key, counts in trace.instructions.items():
        found[key[0], counts.line][key] = counts
    return dict(found)
