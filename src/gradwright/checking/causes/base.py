"""What an explanation is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwright.checking.causes.case import Case


@dataclass(frozen=True, slots=True)
class Cause:
    """``name``: one of the fixed words. ``factor``: what was returned divided by the truth, where it is a constant.

    ``details``: plain values by name (the region, the axis); ``words``: the same for a reader, to follow the name.
    """

    name: str
    factor: float | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    words: str = ""


FORMULA = Cause("formula")


@dataclass(frozen=True)
class Fit:
    """One explanation: ``fit(case)`` answers its cause, or ``None`` where it does not hold; lower orders come first."""

    order: int
    fit: Callable[[Case], Cause | None]
