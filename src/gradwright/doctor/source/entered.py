"""A loop of the user's as it was entered: how often, for how long, with what. No torch: a loop may run before torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.places import relative


@dataclass
class LoopUse:
    """One loop and what was seen of it; ``live_ins`` of its first entries, with tensors copied.

    ``gradients``: gradient calls made inside it, by whatever it calls. ``live``: what was tried on its live graph
    while it was entered (see ``doctor.gradient_loops``), or why nothing was; None where it never came to that.
    """

    subject: Subject
    site: LoopSite
    path: str
    entries: int = 0
    seconds: float = 0.0
    gradients: int = 0
    live_ins: list[dict[str, Any]] = field(default_factory=list)
    globals: dict[str, Any] = field(default_factory=dict)
    live: Any = None


def loop_uses(file: SourceFile, sites: Iterable[LoopSite]) -> list[LoopUse]:
    """The loops of a file as subjects that nothing was seen of yet."""
    uses = []
    for site in sites:
        at = Location(relative(file.path), site.line, site.column, site.end_line, site.end_column)
        place = "the script" if site.function == "<module>" else site.function.replace("<locals>.", "")
        subject = Subject(id=f"loop:{site.function}@{at.path}:{at.line}", kind="loop", name=place, location=at)
        uses.append(LoopUse(subject, site, file.path))
    return uses
