"""What looks on while a script trains: one kind of fact each, told of backwards and optimizer steps as they happen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Optimizer

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.guard import OnFault
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Subject
from gradwright.ground.torch_versions.capability import Capability


@dataclass(frozen=True)
class Surroundings:
    """What every looker needs: the clock; whom to tell of a new subject, and of a fault of ours (``guard.guarded`` with
    it is what patches of torch must be wrapped in); ``apart()``: inside, page faults are not the script's."""

    clock: Clock
    on_new: Callable[[Subject], None]
    on_fault: OnFault
    apart: Callable[[], AbstractContextManager[None]]


class Looker:
    """Looks on from ``install`` to ``remove``. The calls around backwards and steps are guarded by who makes them.

    A looker changes no result, keeps no tensor of the script's alive, and looks at as little as it can: what a step
    costs more must not be seen beside the step (``benchmarks/how_much_does_watching_cost.py``).
    """

    #: What a report says was not examined where this looker can't be installed.
    looks_at: ClassVar[str]
    #: What it needs of torch that another torch may not have: tried before it is installed.
    needs: ClassVar[tuple[Capability, ...]] = ()

    def __init__(self, surroundings: Surroundings) -> None:
        self.clock, self.on_new = surroundings.clock, surroundings.on_new
        self.on_fault, self.apart = surroundings.on_fault, surroundings.apart

    def install(self) -> None:
        """Put on what has to be put on; before the script imports anything but torch."""

    def remove(self) -> None:
        """Take it off."""

    def before_backward(self, site: Subject, root: Tensor | None) -> None:
        """``site`` calls ``backward``, on ``root`` if that is one tensor."""

    def after_backward(self, site: Subject) -> None:
        """It is over, whether it raised or not."""

    def before_step(self, optimizer: Optimizer, subject: Subject) -> None:
        """``optimizer.step`` begins."""

    def after_step(self, optimizer: Optimizer, subject: Subject) -> None:
        """It is over."""

    def own_look(self, frame: FrameType, how: str, trains: bool, value: Any) -> None:
        """A check for NaN of the script's own came upon ``value``; see ``source.own_looks``."""

    def facts(self) -> list[Fact]:
        """What is known by now; the same ids as before, as it grows."""
        return []
