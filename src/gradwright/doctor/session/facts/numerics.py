"""Seen in a second, instrumented run: where NaN or inf begins."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class NonfiniteBegins(Fact):
    """The first operation that was finite in and not finite out, and whose value reached the loss or a gradient.

    ``location`` is the operation's in the forward, whichever ``phase`` it was; ``cause`` a word for the kind of cause,
    ``why`` says it. ``value``: what the result holds at ``entry``, ``operands`` named values there, ``upstream`` the
    gradient that arrived there. ``then``: what became of it. ``step``: losses before it; ``loss_step``: that of the
    first loss that was not finite.
    """

    location: Location | None
    operation: str
    phase: str
    cause: str
    value: str
    why: str
    function: str = ""
    text: str = ""
    entry: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    operands: tuple[tuple[str, float], ...] = ()
    upstream: float | None = None
    hints: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    step: int = 0
    loss_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsNotFinite(Fact):
    """``parameters`` of an optimizer's ``of`` hold NaN or inf: seen after ``losses`` calls of the backward ``site``;
    ``finite_at``: after how many they were finite still."""

    site: str
    losses: int
    finite_at: int
    parameters: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLook(Fact):
    """The script's own look for NaN (``if torch.isnan(loss): break``) came upon it ``times`` times.

    ``how``: what it did then: "raise", "exit", "return", "break", "continue", or "skip" (no ``backward``). ``site``:
    the backward before the first time, "" if there was none; ``step``: how many losses it had been called on by then.
    """

    location: Location
    how: str
    times: int
    site: str
    step: int
