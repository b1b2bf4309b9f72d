"""What a question's measurement hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """``title``: of the table. ``claims``: what is claimed somewhere -> whether that ``holds``, and by what."""

    title: str
    rows: Rows
    claims: Rows = field(default_factory=dict)


def claim(where: str, holds: bool, measured: str, *, so_far: str = "") -> dict[str, Any]:
    """``holds``: by the figures. ``so_far``: in which part, where it does."""
    return {"claimed in": where, "holds": so_far if holds and so_far else holds, "measured": measured}


TUTORIAL = "a tutorial on custom gradients"
SLOW = "an answer on slow Functions"
BATCH = "answers on gradients of a batch"
NOTES = "a learner's notes"
