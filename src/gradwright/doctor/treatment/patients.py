"""What can be tried while the script's process lives: Functions, loops and callables, with real inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any

from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.loops import LoopSite

if TYPE_CHECKING:
    from gradwright.doctor.observed import FunctionUse
    from gradwright.doctor.session.model import Proof
    from gradwright.doctor.session.proposal import Proposal

Specimens = Sequence[tuple[tuple[Any, ...], tuple[bool, ...]]]


@dataclass(frozen=True)
class Called:
    """A plain function (a method's function: then ``self`` is the first of ``args``) and what it was called with."""

    function: FunctionType
    args: tuple[Any, ...]


@dataclass
class Patients:
    """What can be tried, alive: Functions and loops as they were used, callables with what they were called with.

    ``in_script``: tries a change in a run of the whole script, within so many seconds; None where there is no such run.
    """

    functions: Mapping[str, FunctionUse] = field(default_factory=dict)
    specimens: Callable[[str], Specimens] = lambda _: ()
    loops: Sequence[LoopUse] = ()
    callables: Mapping[str, Called] = field(default_factory=dict)
    in_script: Callable[[Proposal, float], Proof | str] | None = None

    def loop_at(self, site: LoopSite, path: str) -> LoopUse | None:
        """The loop of that place as it was entered, if anything was kept of it."""
        for use in self.loops:
            if use.site.line == site.line and use.subject.location.path == path and use.live_ins:
                return use
        return None
