"""Probed: what a Function keeps for its backward, and how much less would do."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTooMuch(Fact):
    """A forward saves ``bytes``, and ``needed_bytes`` would do: ``names`` can be computed again of ``inputs``, by
    elementwise operations (``statements``, as the forward has them). ``location`` is where the first is saved;
    ``given_bytes``: of the tensors that the Function is called with.
    """

    names: tuple[str, ...]
    inputs: tuple[str, ...]
    statements: tuple[str, ...]
    bytes: int
    needed_bytes: int
    given_bytes: int
    location: Location
    tried_on: str
