"""What was observed, alive: Functions and loops as they were used, specimens with their tensors.

Only in the patient's memory; what travels of it are the plain descriptions in ``session``.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from torch import Tensor
from torch.autograd import Function

from gradwright.doctor.session.model import Specimen, Subject
from gradwright.doctor.session.place import Location


@dataclass
class Kept:
    """A specimen with its tensors. ``wanted``: which arguments required a gradient; ``cotangents``: the real ones."""

    about: Specimen
    args: tuple[Any, ...]
    wanted: tuple[bool, ...]
    cotangents: tuple[Tensor | None, ...] | None = None


@dataclass
class FunctionUse:
    """One custom Function and what was seen of it; seconds are totals over its calls."""

    function: type[Function]
    subject: Subject
    forward_calls: int = 0
    tracked_calls: int = 0
    backward_calls: int = 0
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
