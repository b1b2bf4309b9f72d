"""One Function, one call of it, and what is true of its gradient: found by hand, never by gradwright."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Reasons that many share.
SAVED = "what the backward uses was saved without its graph: the second derivative is silently lost (pytorch#104040)"
SUMMED = "an input is broadcast, and its cotangent comes back unsummed: torch's engine sums it in silence"

Truth = Literal["right", "surrogate", "wrong", "unknown"]


@dataclass(frozen=True)
class Case:
    """``subject`` called with ``inputs``.

    ``truth`` is about the values of the gradient at these inputs: "right" (central differences agree, or the reason
    why they can't is in ``why``), "surrogate" (another gradient is meant), "wrong", "unknown" (no derivative is
    defined there). ``real`` holds the codes of contract faults that are real, each with how it was seen by hand; a
    recipe's ``REAL`` explains codes that several of its cases may give.
    """

    name: str
    subject: Any
    inputs: tuple[Any, ...]
    truth: Truth = "right"
    why: str = ""
    real: Mapping[str, str] = field(default_factory=dict)


def case(subject: Any, *inputs: Any, name: str = "", truth: Truth = "right", why: str = "", **real: str) -> Case:
    """A case; keyword arguments such as ``GW202="..."`` are the contract faults that are real."""
    return Case(name or subject.__qualname__, subject, inputs, truth, why, real)
