"""What was observed, alive: Functions and loops as they were used, specimens with their tensors.

Only in the patient's memory; what travels of it are the plain descriptions in ``session``.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from torch import Tensor
from torch.autograd import Function

from gradwright.doctor.session.model import Specimen, Subject
from gradwright.doctor.session.place import Location


@dataclass
class Kept:
    """A specimen with its tensors. ``wanted``: which arguments required a gradient; ``cotangents``: the real ones;
    ``handed_out``: which outputs the caller got, where a Function keeps some for itself (residuals)."""

    about: Specimen
    args: tuple[Any, ...]
    wanted: tuple[bool, ...]
    cotangents: tuple[Tensor | None, ...] | None = None
    handed_out: tuple[bool, ...] | None = None

    @property
    def used_outputs(self) -> tuple[bool, ...] | None:
        """Which outputs really received a cotangent in the run; those that could, if no backward was seen, or only
        zeros (``None``: each)."""
        if self.cotangents is None:
            return self.handed_out
        used = tuple(item is not None and bool((item != 0).any()) for item in self.cotangents)
        return used if any(used) else self.handed_out

    def with_cotangent(self, outputs: Sequence[Any]) -> list[Any]:
        """``outputs`` of a forward, ``None`` in place of each that receives no cotangent."""
        used = self.used_outputs
        if used is None or len(used) != len(outputs):
            return list(outputs)
        return [output if is_used else None for output, is_used in zip(outputs, used, strict=True)]


@dataclass
class FunctionUse:
    """One custom Function and what was seen of it; seconds are totals over its calls."""

    function: type[Function]
    subject: Subject
    forward_calls: int = 0
    tracked_calls: int = 0
    backward_calls: int = 0
    twin: bool = False  # another class of its name and place came first, with a forward of its own: that one is tried
    nested: bool = False  # another call of it came between a forward and its backward
    last_node: weakref.ref[Any] | None = None
    transformed_calls: int = 0  # under torch.func transforms, whose tensors are no specimens
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    gradients_before: int | None = None
    call_site: Location | None = None
    forward_at: Location | None = None
    backward_at: Location | None = None
    returns: tuple[Location, ...] = ()
    # The node of a call whose specimen was kept, so that its real cotangents can join it.
    awaiting: weakref.WeakKeyDictionary[Any, Kept] = field(default_factory=weakref.WeakKeyDictionary)


@dataclass
class LossUse:
    """A function of the user's that returned a loss, and what it was called with (a method, with its object)."""

    subject: Subject
    function: FunctionType
    names: tuple[str, ...]
    args: tuple[Any, ...]
