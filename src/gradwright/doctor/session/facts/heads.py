"""What the graph near a loss shows: what a backward starts from, and what the loss is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwright.doctor.session.facts.fact import Fact
from gradwright.doctor.session.place import Location

HeadFault = Literal["probabilities as logits", "log-probabilities as logits", "no log-probabilities"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossHead(Fact):
    """A loss that takes logits got probabilities, or one that takes log-probabilities got something else.

    ``loss`` and ``made_by`` are operations ("cross_entropy", "softmax"); ``chain`` the graph's nodes between them, the
    loss first. ``seen`` of ``looked`` graphs of this backward showed it. ``location`` is the loss's call if that could
    be known, ``made_at`` that of what made its input. ``same_values``: the second pass changes no value.
    """

    fault: HeadFault
    loss: str
    made_by: str
    chain: tuple[str, ...]
    seen: int
    looked: int
    location: Location | None = None
    made_at: Location | None = None
    same_values: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBroadcast(Fact):
    """Two columns of one length, one of them flat, became a matrix near the loss's root, and its mean the loss.

    ``target`` is empty where only the prediction's shape could be seen.
    """

    operation: str
    prediction: tuple[int, ...]
    target: tuple[int, ...]
    result: tuple[int, ...]
    seen: int
    looked: int
    location: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRoots(Fact):
    """How often a backward started from a tensor with no history, and how many optimizer steps came right after it.

    ``behind``: it is not the root itself, but all that is behind it, anew in each of the calls that were looked at.
    ``made_at`` and ``made_by``: the statement that made it, as far as the text shows.
    """

    calls: int
    leaf_calls: int
    steps: int
    behind: bool = False
    made_at: Location | None = None
    made_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantTerm(Fact):
    """A term of the loss that was computed from ``autograd.grad`` without ``create_graph``: a number, for backward.

    ``made_at``: where that was called; ``added_at``: where the term was added.
    """

    seen: int
    looked: int
    made_at: Location | None = None
    added_at: Location | None = None
