"""What a question's measurement hands back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """``title``: of the table. ``claims``: what is printed in a source -> whether that ``holds``, and by what."""

    title: str
    rows: Rows
    claims: Rows = field(default_factory=dict)


def claim(source: str, holds: bool, measured: str, *, so_far: str = "") -> dict[str, Any]:
    """``holds``: by the figures. ``so_far``: in which part, where it does."""
    return {"printed in": source, "holds": so_far if holds and so_far else holds, "measured": measured}


TUTORIAL = "tutorial on custom backpropagation"
SLOW = "why is a custom function slow"
BATCH = "gradient of a batch, the answer"
NOTES = "notes on Huber and zero_grad"
