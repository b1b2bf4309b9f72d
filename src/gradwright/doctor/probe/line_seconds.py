"""Where the time of a call goes, line by line: by a clock that is looked at where one line ends and the next begins.

Nothing else is looked at meanwhile: operations, kernels and NumPy's work run as they always do, and Python's own time
belongs to the line that takes it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from gradwright.checking.chance import reproducible
from gradwright.doctor.probe.tracing import EnoughTraced, is_own
from gradwright.ground.clock import now

Clock = Callable[[], float]
Line = tuple[CodeType, int]

MOST_CALLS, ENOUGH_SECONDS = 5, 0.1
_ROUNDS, _TRIES = 500, 5
_CHECKED_EVERY = 512  # looks at the clock


@dataclass
class Taken:
    """Seconds of one call by line. ``rest``: outside of the subject's code, on the way into it and out of it.

    ``complete`` is False of a call that was cut off: these are the seconds until then.
    """

    lines: dict[Line, float] = field(default_factory=dict)
    rest: float = 0.0
    complete: bool = True

    @property
    def all(self) -> float:
        return sum(self.lines.values()) + self.rest


class _LineClock:
    """What ``sys.settrace`` is given. ``own``: seconds of a look at the clock that the clock can't see."""

    def __init__(
        self, clock: Clock, own: float, seconds: float, files: Collection[str], devices: Iterable[torch.device]
    ) -> None:
        self._clock, self._own, self._deadline = clock, own, now() + seconds
        self._files = files
        # The GPUs that are waited for: the current one, where what is made without a device goes, and those given.
        self._gpus: list[torch.device | None] = []
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
            self._gpus = [None, *sorted({device for device in devices if device.type == "cuda"}, key=str)]
        self._callers: list[Line | None] = []
        self._now: Line | None = None
        self.seconds: dict[Line | None, float] = {}
        self.looks: Counter[Line | None] = Counter()
        self._every = 0
        self._last = clock()

    def anywhere(self, frame: FrameType, event: str, _: Any) -> Any:
        self._book()
        path = frame.f_code.co_filename
        followed = is_own(path) or path in self._files
        if followed:
            self._callers.append(self._now)
            self._now = frame.f_code, frame.f_lineno
        self._last = self._clock()
        return self._inside if followed else None

    def _inside(self, frame: FrameType, event: str, _: Any) -> Any:
        self._book()
        if event == "line":
            self._now = frame.f_code, frame.f_lineno
        elif event == "return":
            self._now = self._callers.pop() if self._callers else None
        self._last = self._clock()
        return self._inside

    def _book(self) -> None:
        """What has gone by since the last look belongs to the line that ran."""
        for gpu in self._gpus:
            torch.cuda.synchronize(gpu)  # what was only queued so far has taken no time yet
        read, line = self._clock(), self._now
        self.seconds[line] = self.seconds.get(line, 0.0) + read - self._last
        self.looks[line] += 1
        self._every += 1
        if self._every % _CHECKED_EVERY == 0 and now() > self._deadline:
            raise EnoughTraced

    def end(self) -> None:
        self._book()

    def taken(self) -> Taken:
        own = {line: max(0.0, seconds - self._own * self.looks[line]) for line, seconds in self.seconds.items()}
        rest = own.pop(None, 0.0)
        return Taken({line: seconds for line, seconds in own.items() if line is not None}, rest)


def time_call(
    work: Callable[[], object],
    seconds: float,
    *,
    files: Collection[str] = (),
    devices: Iterable[torch.device] = (),
    clock: Clock = time.perf_counter,
    own: float = 0.0,
) -> Taken:
    """Run ``work`` on the clock. ``own``: see :func:`own_seconds`. What takes longer than ``seconds`` is cut off.

    The user's files and ``files`` are gone through line by line; what other code takes belongs to the line that calls
    it. ``devices``: those on which it may only queue its work. Cost: a microsecond a line. Raises what ``work`` raises.
    """
    lines = _LineClock(clock, own, seconds, files, devices)
    before = sys.gettrace()
    complete = True
    with torch.no_grad():
        try:
            sys.settrace(lines.anywhere)
            work()
            sys.settrace(before)
            lines.end()
        except EnoughTraced:
            complete = False
        finally:
            sys.settrace(before)
    taken = lines.taken()
    taken.complete = complete
    return taken


def own_seconds(clock: Clock = time.perf_counter) -> float:
    """What a look at the clock costs beyond what the clock sees of it. Cost: a few milliseconds."""
    plain = min(_seconds_of_rounds(clock) for _ in range(_TRIES))
    timed = min(time_call(_as_subject, 1.0, clock=clock).all for _ in range(_TRIES))
    return max(0.0, timed - plain) / (2 * _ROUNDS)


def _rounds() -> None:
    for _ in range(_ROUNDS):
        pass


# As code of a subject's, which is followed.
_as_subject = FunctionType(_rounds.__code__.replace(co_filename="<gradwright loop timed>"), globals())


def _seconds_of_rounds(clock: Clock) -> float:
    started = clock()
    _as_subject()
    return clock() - started


def medians(calls: Sequence[Taken]) -> Taken:
    """Of several calls, line by line; the first one where none ran to its end."""
    whole = [taken for taken in calls if taken.complete]
    if not whole:
        return calls[0]
    lines = {line: None for taken in whole for line in taken.lines}
    return Taken(
        {line: statistics.median(taken.lines.get(line, 0.0) for taken in whole) for line in lines},
        statistics.median(taken.rest for taken in whole),
    )


def several(once: Callable[[float], Sequence[Taken]], *, enough: float = ENOUGH_SECONDS) -> list[Taken]:
    """Medians, phase by phase, of what ``once(own)`` times, again and again until that has taken ``enough`` seconds."""
    own = own_seconds()
    until = now() + enough
    calls: list[Sequence[Taken]] = []
    while not calls or (len(calls) < MOST_CALLS and now() < until):
        with reproducible(0):
            calls.append(once(own))
    return [medians(phase) for phase in zip(*calls, strict=True)]
