"""A loop of the user's as it was entered: how often, for how long, with what. No torch: a loop may run before torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.loops import LoopSite


@dataclass
class LoopUse:
    """One loop and what was seen of it; ``live_ins`` of its first entries, with tensors copied.

    ``gradients``: gradient calls made inside it, by whatever it calls.
    """

    subject: Subject
    site: LoopSite
    path: str
    entries: int = 0
    seconds: float = 0.0
    gradients: int = 0
    live_ins: list[dict[str, Any]] = field(default_factory=list)
    globals: dict[str, Any] = field(default_factory=dict)
