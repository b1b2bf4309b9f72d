"""Seen while the script trained on a GPU: where it waited for it."""

from __future__ import annotations

from dataclasses import dataclass

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSync(Fact):
    """A call that waits until the GPU has done all that it was asked for, because a value or a shape is needed.

    ``call``: its name as it is written (``item()``, ``a boolean mask``). Of ``steps`` steps that were looked at, the
    first of which was ``first_step``, it was made in ``seen_in``, ``calls`` times in all; ``seconds``: how long these
    took, ``step_seconds``: how long a step did, on average.
    """

    location: Location
    call: str
    calls: int
    seen_in: int
    steps: int
    first_step: int
    seconds: float
    step_seconds: float
