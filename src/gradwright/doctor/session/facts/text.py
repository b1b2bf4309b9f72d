"""Read from the text."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


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
