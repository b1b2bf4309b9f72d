"""Of several ranks: what each did, and what they did differently."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRun(Fact):
    """How one rank fared. ``session``: the file of its own session; ``missing``: why there is none, "" if there is.

    ``unexplained``: how its script ended ("exited 7") where that is not well, not so on all ranks, and no exception and
    no signal tells why; "" elsewhere.
    """

    rank: int
    world_size: int
    session: str
    exit_code: int | None = None
    seconds: float = 0.0
    steps: int = 0
    gradients: int = 0
    missing: str = ""
    unexplained: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksDiffer(Fact):
    """Something that is not the same on every rank: pairs of a rank and what it is there, in words."""

    what: str
    values: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSums(Fact):
    """Of one rank: sums over parameters that all ranks hold alike, after some steps of their optimizer.

    ``parameters`` stands for their names; ``sums``: step, sum of the entries, sum of their absolute values.
    """

    parameters: str
    sums: tuple[tuple[int, float, float], ...]
