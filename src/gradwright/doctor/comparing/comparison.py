"""What a comparison says, as plain data; its JSON form is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.model import Finding

Turn = Literal["worse", "better", "neutral"]


@dataclass(frozen=True, slots=True)
class FindingChange:
    """One finding before and after; ``None`` where it is not there.

    ``how``: "new"; "gone"; "severity" (it changed); "moved" (the same, elsewhere, or on a line that was edited);
    "renamed" (the same, of what has another name now); "suppressed" (gone, by a remark in the text); "unexamined" (not
    found, but nobody looked). ``fix_made``: its fix stands in the new text.
    """

    how: Literal["new", "gone", "severity", "moved", "renamed", "suppressed", "unexamined"]
    turn: Turn
    old: Finding | None
    new: Finding | None
    fix_made: bool = False

    @property
    def as_before(self) -> bool:
        """It is the same finding, wherever it stands now."""
        return self.how in ("moved", "renamed")

    @property
    def shown(self) -> Finding:
        """As it is, or as it was."""
        found = self.new or self.old
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class GradientChange:
    """The verdict on a Function's gradient with respect to ``input``, or on the whole Function (""), in words."""

    turn: Turn
    function: str
    path: str
    input: str
    before: str
    after: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class TimeChange:
    """Wall seconds of one call, which are those of one run, and noisy: they never make a session worse by themselves.

    ``factor``: after divided by before. ``same_inputs``: whether both runs kept the same shapes; ``None``: not known.
    """

    turn: Turn
    function: str
    path: str
    phase: Literal["forward", "backward"]
    before_seconds: float
    after_seconds: float
    factor: float
    same_inputs: bool | None = None


@dataclass(frozen=True, slots=True)
class Unexamined:
    """Something that the new session lists as not examined, and the old one does not."""

    turn: Turn
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """``cautions``: in what the runs were not alike, or why one of them may not know everything. ``same``: how many
    findings are as they were, those that moved among them. ``times_gate``: whether slower Functions count as worse."""

    findings: tuple[FindingChange, ...] = ()
    gradients: tuple[GradientChange, ...] = ()
    times: tuple[TimeChange, ...] = ()
    unexamined: tuple[Unexamined, ...] = ()
    cautions: tuple[str, ...] = ()
    same: int = 0
    times_gate: bool = False

    @property
    def worse(self) -> bool:
        """There is a new error or warning, a verdict that got worse, or something that is no longer examined."""
        return "worse" in self.turns

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Of everything that counts; a finding that merely moved does not."""
        return (
            *(change.turn for change in self.findings if not change.as_before),
            *(change.turn for change in self.gradients),
            *(change.turn for change in self.unexamined),
            *(change.turn for change in self.times if self.times_gate),
        )
