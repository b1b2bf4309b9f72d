"""Facts: what was seen or measured, one class per kind. Rules read these and nothing else.

A fact is observed (while the script ran), probed (a subject tried alone on its specimens) or read (from the text).
Its ``id`` is stable within a session: a later fact with the same id replaces the earlier one, so that counters can be
written to the journal as they grow. Seconds are wall time; bytes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.place import Location

Phase = Literal["forward", "backward", "loop"]
Verdict = Literal["right", "wrong", "surrogate", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """``id`` names the fact in evidence lists, ``subject`` the subject it is about."""

    id: str
    subject: str


# --- observed: how often, how long -----------------------------------------------------------------------------------


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
    """Values of a scalar that ``backward`` was called on, over the calls of one site (step counts from 0)."""

    calls: int
    first: float
    last: float
    lowest: float
    first_negative_step: int | None = None
    first_nonfinite_step: int | None = None
    first_nonfinite: str = ""
    history: tuple[float, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptKilled(Fact):
    """A signal ended the script's process from outside, or from inside its C code."""

    signal: str
    steps: int
    gradients: int


# --- probed: is it right? --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientVerdict(Fact):
    """The gradient with respect to one input, on one specimen.

    ``cause`` is "" when right; "constant factor" (then ``factor`` holds what the backward returned divided by the
    truth), "sum for mean" (likewise), "sign", "dropped term" (with a ``factor`` of 0: nothing was returned), "missing
    grad_output", "nonlinear in the cotangent", "transpose", "permutation", "swapped inputs", "additive offset",
    "region", "batch rows mixed", "precision lost", "nondeterminism", "state kept between calls", or "formula"; of a
    surrogate "identity" (a forward that changes nothing), "piecewise constant" or "gradient held back" (a callable
    that detaches). ``reason`` says the details. ``error`` and ``tolerance`` are relative to the largest entry.
    ``returned`` and ``expected`` are the values at index ``at``, the entry that differs most.
    ``oracles`` names those that judged: "autograd of the forward", "finite differences".
    """

    specimen: str
    input_index: int
    input_name: str
    verdict: Verdict
    cause: str = ""
    factor: float | None = None
    error: float = 0.0
    tolerance: float = 0.0
    at: tuple[int, ...] = ()
    returned: float | None = None
    expected: float | None = None
    oracles: tuple[str, ...] = ()
    checks: int = 0
    tried_on: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCount(Fact):
    """``backward`` returned ``returned`` gradients where ``forward`` takes ``expected`` inputs."""

    expected: int
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated(Fact):
    """A call changed the values of something that is not its own (by checksum, so ``.data`` is seen too).

    ``declared``: it was an input that the forward marked with ``mark_dirty``.
    """

    phase: Phase
    what: Literal["input", "cotangent", "saved tensor"]
    name: str
    declared: bool = False
    specimen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw(Fact):
    """A finding of the check room's about one Function on one specimen, beside the value: see ``gw.check``.

    ``code`` is the rule's that tells it, ``cause`` the check room's word, ``input`` the input concerned ("": none).
    """

    code: str
    cause: str
    severity: Literal["error", "warning", "info"]
    message: str
    why: str = ""
    do: str = ""
    input: str = ""
    specimen: str = ""
    tried_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSurrogate(Fact):
    """The user said ``@gw.surrogate(reason=...)``."""

    reason: str


# --- probed: what does it cost? --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCost:
    """Operations dispatched from one expression. ``scalar_operations``: those that compute or move a single element."""

    location: Location
    operations: int
    scalar_operations: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsPerLine(Fact):
    """Dispatched operations and bytes by source line, of one phase, heaviest first.

    ``minimum_bytes``: the distinct input, output and saved bytes, which any implementation must move. ``tried_on``
    names the shapes; ``seconds`` is one call without the counting.
    """

    phase: Phase
    operations: int
    bytes: int
    minimum_bytes: int
    seconds: float
    tried_on: str
    lines: tuple[LineCost, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopShape(Fact):
    """A Python loop that dispatches operations. ``location`` is the loop statement, ``hot`` its heaviest expression.

    ``iterations`` of the innermost body, ``operations`` dispatched inside it, at the shapes ``tried_on``: ``views`` of
    them only select something, ``scalar_operations`` compute or move a single element; ``per_element``: it works on
    elements rather than on tensors. ``full_operations`` is what the shapes of the run need, measured or extrapolated
    per element (``extrapolated``). ``share_of_step``: of the watched time. ``carried``: one sentence on the dependence
    that one iteration has on an earlier one, "" where none was found.
    """

    phase: Phase
    location: Location
    hot: Location
    iterations: int
    operations: int
    scalar_operations: int
    views: int = 0
    per_element: bool = True
    full_operations: int
    extrapolated: bool
    seconds: float
    share_of_step: float
    tried_on: str
    carried: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTwin(Fact):
    """The Function beside plain autograd through its own forward: same gradient, how long, how much is saved.

    Seconds are medians of forward + backward, interleaved in one run; bytes are those saved for the backward.
    """

    same_gradient: bool
    function_seconds: float
    plain_seconds: float
    function_saved_bytes: int
    plain_saved_bytes: int
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshBuffers(Fact):
    """What a fresh buffer costs on this machine, by a trial in a process of its own, as it is (``faults``, ``seconds``
    of CPU time) and once freed memory stays with the process (``kept_seconds``)."""

    buffer_bytes: int
    faults: int
    seconds: float
    kept_seconds: float


# --- read from the text ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainBackward(Fact):
    """A plain function that is written as a backward: it takes a cotangent.

    ``references``: how often it is named elsewhere. ``forward``: the function it seems to belong to, "" if none.
    """

    parameters: tuple[str, ...]
    references: int
    forward: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectForward(Fact):
    """A Function's ``forward`` is called directly (``location``), and its ``apply`` nowhere."""

    location: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinAsTensor(Fact):
    """Arithmetic on a name that is Python's builtin there (``input``, ``sum``, ``type`` ...): nothing rebinds it."""

    builtin: str
    location: Location
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskPair(Fact):
    """Two factors used as masks: ``mask`` is a comparison of ``compared``, but ``complement`` is ``1 - compared``.

    ``location`` is where the complement is made.
    """

    mask: str
    complement: str
    compared: str
    location: Location
    function: str
