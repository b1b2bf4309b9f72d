"""Seen while the script ran: what happened when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact

Span = Literal["forward", "backward", "gradient call", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(Fact):
    """A stretch of what was watched, column by column: ``whom`` are subjects' ids, ``starts`` seconds since the script
    began, ``threads`` count from 0 in the order they were met. ``dropped``: spans after the last that had room."""

    whom: tuple[str, ...]
    spans: tuple[Span, ...]
    starts: tuple[float, ...]
    seconds: tuple[float, ...]
    threads: tuple[int, ...]
    steps: tuple[int, ...]
    dropped: int = 0
