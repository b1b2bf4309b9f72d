"""What a trial is told beside what the second run was told, and what it answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gradwright.doctor.session.proposal import Proposal

TRIAL = "trial.json"
AFTERWARDS = 3  # steps that it must stay finite for


@dataclass(frozen=True)
class TrialRequest:
    """``text`` stands in for that of ``path``; ``span``, ``before``, ``after``, ``unused``: see ``Twin``. Calls of
    ``backward`` are counted, all of them, from 0: in or before number ``call`` it began; what is watched is from
    ``watch_from`` on to ``until``."""

    path: str
    text: str
    span: tuple[int, int]
    before: str
    after: str
    call: int
    watch_from: int
    until: int
    unused: bool = False

    @classmethod
    def of(cls, proposal: Proposal, path: str, call: int, each: int) -> TrialRequest:
        """``each``: calls of ``backward`` in a step."""
        twin = proposal.twin
        assert twin is not None
        until = call + 1 + AFTERWARDS * each
        from_ = max(0, call - 2 * each)
        return cls(path, proposal.new_text, twin.span, twin.before, twin.after, call, from_, until, twin.unused)

    def write(self, folder: Path) -> None:
        (folder / TRIAL).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> TrialRequest:
        data = json.loads((folder / TRIAL).read_text())
        data["span"] = tuple(data["span"])
        return cls(**data)


@dataclass(frozen=True)
class Outcome:
    """What was seen: the ``losses`` of all backwards (None: no number), ``error`` if the script raised, ``begin`` if
    something was not finite again, in or before backward number ``begin_call``, ``fed_it``: it stands before the place.

    Of the place: ``evaluations`` at which backward, ``compared`` entries of its value and of its gradient, ``worst``
    relative difference and the ``tolerance``, ``differs``: a counterexample, ``faults``: what failed of the watch.
    """

    losses: list[float | None] = field(default_factory=list)
    error: str = ""
    begin: dict[str, Any] | None = None
    begin_call: int = 0
    fed_it: bool = False
    evaluations: list[int] = field(default_factory=list)
    compared: tuple[int, int] = (0, 0)
    wants_gradient: bool = False
    worst: float = 0.0
    tolerance: float = 0.0
    differs: str = ""
    faults: list[str] = field(default_factory=list)
    lines: tuple[int, int] = (0, 0)
