"""Probed: what does it cost, and what would cost less?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact, Phase
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCost:
    """Operations dispatched from one expression. ``scalar_operations``: those that compute or move a single element;
    ``seconds``: its share of one call's time, measured; 0 where it was not. A line that dispatches nothing is among
    them if Python, or NumPy, takes its time there."""

    location: Location
    operations: int
    scalar_operations: int
    bytes: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsPerLine(Fact):
    """Dispatched operations and bytes by source line, of one phase, heaviest first.

    ``minimum_bytes``: the distinct input, output and saved bytes, which any implementation must move; ``flops``: of
    its products and convolutions. ``tried_on`` names the shapes; ``seconds`` is one call without the counting: called
    again and again, or where that takes too long, the mean of the script's own calls. ``shrunk``: ``tried_on`` is
    smaller than what these were of. What the seconds of the lines are less is time that was left to Python elsewhere.
    """

    phase: Phase
    operations: int
    bytes: int
    minimum_bytes: int
    seconds: float
    tried_on: str
    lines: tuple[LineCost, ...] = ()
    flops: int = 0
    shrunk: bool = False


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
class ArrayTwin(Fact):
    """A loop over rows beside array code that was proved to do the same: seconds of each, on what it was entered with.

    ``carried``: why it is compiled as it stands instead, in a Function; "" of array code. ``iterations`` and
    ``operations`` as in :class:`LoopShape`; 0 where the functions it calls do the dispatching.
    """

    location: Location
    iterations: int
    operations: int
    before_seconds: float
    after_seconds: float
    share_of_step: float
    tried_on: str
    carried: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshBuffers(Fact):
    """What a fresh buffer costs on this machine, by a trial in a process of its own, as it is (``faults``, ``seconds``
    of CPU time) and once freed memory stays with the process (``kept_seconds``)."""

    buffer_bytes: int
    faults: int
    seconds: float
    kept_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyExpression(Fact):
    """An expression or statement that moves or makes more than it must, measured at the inputs of a real call.

    ``text``: its source, on one line. ``bytes``: read and written, ``minimum_bytes``: its distinct inputs and its
    result, ``extra_bytes``: of the tensors made on the way that nobody needs. The shares are of the time of the
    phase's operations, and of the watched time. ``shapes``: of its parts, as the pattern has them; ``first``: where a
    value that is computed again was computed first; ``wide_part``: which part is float64, where only one is;
    ``spoilt``: entries of a product with a mask that are NaN although the mask leaves them out.
    """

    phase: Phase
    pattern: Literal["product summed", "recomputed", "temporaries", "copy", "masked write", "mask product", "promoted"]
    location: Location
    text: str
    bytes: int
    minimum_bytes: int
    extra_bytes: int
    share_of_phase: float
    share_of_step: float
    tried_on: str
    shapes: tuple[tuple[int, ...], ...] = ()
    first: Location | None = None
    wide_part: int | None = None
    spoilt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UndefinedGradient(Fact):
    """An operation that turns finite cotangents into NaN or inf, at the inputs of a call whose results are finite.

    ``operation``: torch's name (``sqrt``); ``entries``: of its operand, at which that happens, ``value`` the operand
    there; ``taken``: whether the result at those entries is used at all (the cotangent that comes in is not 0);
    ``input_name``: whose gradient is NaN because of it.
    """

    location: Location
    text: str
    operation: str
    entries: int
    value: float
    taken: bool
    input_name: str
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnneededGradient(Fact):
    """Gradients that a backward computes for inputs (``indices``, ``names``) that wanted none in any call of the run.

    ``operations``, ``seconds``: of one backward, what only they need; ``bytes``: of what is returned for them. The
    shares are of the time of the backward's operations, and of the watched time.
    """

    indices: tuple[int, ...]
    names: tuple[str, ...]
    operations: int
    seconds: float
    bytes: int
    share_of_backward: float
    share_of_step: float
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOnContext(Fact):
    """A forward sets ``ctx.attribute`` to one of its own inputs or outputs, of ``bytes``. ``location`` is where."""

    attribute: str
    role: Literal["input", "output"]
    bytes: int
    location: Location
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedNotNeeded(Fact):
    """A tensor of ``bytes`` is saved for a backward that reads nothing of it, or (``use``) its shape or dtype alone.

    ``name`` is what the backward calls it, ``role`` whether it was an input, an output or neither; ``share`` is of all
    bytes saved. ``location`` is where it is saved.
    """

    name: str
    use: Literal["nothing", "shape"]
    role: Literal["input", "output", "intermediate"]
    bytes: int
    share: float
    location: Location
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NumpyDetour(Fact):
    """Tensors that go to NumPy in a function, or in a Function's methods, and come back: ``location`` is where the
    first one goes, ``text`` what stands there. ``share_of_step``: of the watched time, what the functions take."""

    location: Location
    text: str
    share_of_step: float
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTwin(Fact):
    """A detour through NumPy beside the same in torch, proved to do the same: seconds of each, on ``tried_on``."""

    location: Location
    text: str
    before_seconds: float
    after_seconds: float
    share_of_step: float
    tried_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLoss(Fact):
    """A function that is a loss of ``gradwright.losses``. ``call``: of that, as it would stand in the function.

    ``prediction``, ``target``: the places of these arguments; ``from_0_to_1``: what the target holds. ``wrong_at``:
    where the function is NaN, infinite or far off and the other right, in words; "" if nowhere; at predictions of that
    ``size`` and both signs. Seconds of a value and its gradient, of each, on ``tried_on``.
    """

    location: Location
    loss: str
    call: str
    prediction: int
    target: int
    from_0_to_1: bool
    wrong_at: str
    size: float
    before_seconds: float
    after_seconds: float
    tried_on: str
