"""Observed while the script ran: how often, how long, how it ended."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCalls(Fact):
    """How a custom Function was used. ``tracked_calls``: forward calls whose output could receive a gradient.

    ``share_of_step`` is the share of the watched time (from the first gradient work to the last) spent in it;
    ``gradient_calls_since``: calls of ``backward`` or ``autograd.grad`` since its first tracked call. ``call_site`` is
    that of the first call; ``forward_at`` and ``backward_at`` are the definitions; ``returns`` are the places of the
    values that the backward returns, if it has a single ``return``.
    """

    forward_calls: int
    tracked_calls: int
    backward_calls: int
    forward_seconds: float
    backward_seconds: float
    share_of_step: float
    call_site: Location | None = None
    forward_at: Location | None = None
    backward_at: Location | None = None
    returns: tuple[Location, ...] = ()
    gradient_calls_since: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCalls(Fact):
    """One call site of ``autograd.grad`` or ``backward``.

    ``longest_run``: the most calls in a row that differentiated entries of one tensor, on one graph, with respect to
    the same tensors; ``run_of`` says what those entries were, ``run_shape`` the shape of the tensor they came from.
    """

    api: Literal["autograd.grad", "backward"]
    calls: int
    seconds: float
    share_of_step: float
    longest_run: int
    run_of: str = ""
    run_shape: tuple[int, ...] = ()
    create_graph: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossValues(Fact):
    """Values of a scalar that ``backward`` was called on, over the calls of one site (step counts from 0).

    ``history``: the first ones; ``window``: the last ones before the first that was not finite.
    """

    calls: int
    first: float
    last: float
    lowest: float
    first_negative_step: int | None = None
    first_nonfinite_step: int | None = None
    first_nonfinite: str = ""
    history: tuple[float, ...] = ()
    window: tuple[float, ...] = ()

    def last_before(self, step: int) -> tuple[int, float] | None:
        """The latest step before that one whose value is known, and the value; what was not finite is left out."""
        first_of_window = (self.first_nonfinite_step or 0) - len(self.window)
        known = {**dict(enumerate(self.history)), **dict(enumerate(self.window, first_of_window))}
        return max(((at, value) for at, value in known.items() if at < step and math.isfinite(value)), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSteps(Fact):
    """Steps of one optimizer, or of several made one after the other at one place.

    ``stale_steps``: steps whose gradients still held those of the step before; the first step of each optimizer has
    none before it. ``backward_site``: where the gradient was added to the uncleared one.
    """

    steps: int
    stale_steps: int
    first_stale_step: int | None = None
    parameters: int = 0
    optimizers: int = 1
    backward_site: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRun(Fact):
    """How often a loop of a plain function, a method or the script's body was entered, and how long it ran."""

    entries: int
    seconds: float
    share_of_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFaults(Fact):
    """Page faults of a ``backward`` call site, in the median of the later half of its calls.

    ``faults``, ``seconds``: of one backward, in CPU time, which a busy machine leaves as it is; ``step_faults``,
    ``step_seconds``: from one backward to the next. ``grown_bytes``: what the process grew by in a step, which no
    allocator could keep.
    """

    calls: int
    faults: int
    seconds: float
    grown_bytes: int
    step_faults: int
    step_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptDied(Fact):
    """An exception ended the script (or the subject, when it was tried alone).

    ``location`` is the innermost line of the user's in the traceback, to the column. ``tensors`` describes the tensors
    among that frame's variables ("loss float32[64]"); ``details`` holds what the locators found out, by name; ``cause``
    is the place they hold responsible where that is another (the return of the backward that returned too little).
    """

    type: str
    message: str
    location: Location | None = None
    function: str = ""
    line_text: str = ""
    tensors: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    cause: Location | None = None

    @property
    def is_of_nan(self) -> bool:
        """Somebody looked for NaN or infinity, and found one."""
        if self.type == "AssertionError" and re.search(r"\bis(nan|inf|finite)\b", self.line_text):
            return True
        return re.search(r"\b(nan|infinit[ey]|non-?finite|not finite)\b", self.message, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptKilled(Fact):
    """A signal ended the script's process from outside, or from inside its C code."""

    signal: str
    steps: int
    gradients: int
