"""Observed: derivatives that torch leaves out without a word."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardDropped(Fact):
    """``torch.compile`` traced a Function's ``apply`` inside a transform of ``torch.func`` that was traced with it.

    ``location``: the ``apply``. ``returned``, ``asked``: the derivative that this torch gave for a Function made to
    tell, whose backward returns ``asked`` on purpose; where they are equal nothing is dropped and there is no fact.
    """

    location: Location
    times: int
    returned: float
    asked: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TangentDropped(Fact):
    """An operator made with ``torch.library.custom_op`` was given tangents (forward mode) and returned none.

    ``location``: the first such call.
    """

    location: Location
    operator: str
    times: int
