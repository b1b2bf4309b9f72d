"""Seen while a test session ran: whose Function is it?"""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledByTests(Fact):
    """The tests that called a custom Function: the first few by pytest's node id, ``count`` of them in all.

    ``seconds``: how long they took together, from set-up to tear-down.
    """

    tests: tuple[str, ...]
    count: int
    seconds: float
