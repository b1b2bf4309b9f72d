"""Backwards of one place that add up to one step: what they were divided by, window by window."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gradwright.doctor.observe.training.ordering.objectives import is_over_objectives
from gradwright.doctor.observe.training.ordering.shares import Share
from gradwright.doctor.session.facts import Accumulation
from gradwright.doctor.session.model import Subject

_NOTES = 512  # windows that are kept
_AT_FIRST = 8
_CLOSE = 1e-3


class Micro(NamedTuple):
    """One backward. ``key``: the calls that led to it. ``scaler``: (enabled, scale) of the GradScaler, if any.
    ``nodes``: numbers of some nodes of its graph."""

    key: tuple[Any, ...]
    site: Subject
    share: Share | None
    scaler: tuple[bool, float] | None
    nodes: frozenset[int] = frozenset()


class _Note(NamedTuple):
    """``share``: of each of the ``size`` losses, None where that is not known or not the same of all; ``right``: the
    weights of the means add up to 1. ``counts``: of elements, if all are known and the weights are equal."""

    step: int
    size: int
    share: Share | None
    right: bool
    counts: tuple[float, ...]


@dataclass
class AccumulationTally:
    """The windows that one place took part in.

    ``unlike``: its backwards were seen to reach different parameters, or to share a graph: losses of several heads, of
    several models, of the steps of one sequence, and no micro-batches.
    """

    site: Subject
    windows: int = 0
    unlike: bool = False
    accumulates: bool = False
    notes: list[_Note] = field(default_factory=list)

    def add(self, step: int, micros: list[Micro], together: int, *, alike: bool) -> None:
        """``together``: how many backwards the window had, of this place and others: the last one may have its own.
        ``alike``: they reached the same parameters."""
        self.windows += 1
        self.accumulates = self.accumulates or len(micros) > 1
        shared = len(frozenset().union(*(micro.nodes for micro in micros))) < sum(len(micro.nodes) for micro in micros)
        self.unlike = self.unlike or (len(micros) > 1 and (shared or not alike))
        if len(self.notes) < _NOTES:
            self.notes.append(_note(step, [micro.share for micro in micros], together))

    def wanted(self) -> bool:
        """Whether shares are still worth reading: at first, and where backwards do accumulate."""
        return self.windows < _AT_FIRST or self.accumulates

    def new(self) -> bool:
        """Whether graphs are still worth telling apart."""
        return self.windows < _AT_FIRST

    def fact(self, optimizer: str) -> Accumulation | None:
        """None unless backwards accumulated in at least two windows, or in one of two."""
        if self.unlike:
            return None
        known = [note for note in self.notes if note.share is not None or note.right]
        accumulated = [note for note in known if note.size > 1]
        if len(accumulated) < 2:
            return None
        sizes = Counter(note.size for note in accumulated)
        rights = Counter(note.size for note in accumulated if note.right)
        often = rights if 3 * rights.total() >= sizes.total() else sizes
        usual = often.most_common(1)[0][0]
        divisor = Counter(_nearest(note, usual) for note in known if note.size == usual).most_common(1)[0][0]
        undivided = sum(not note.right and _nearest(note, usual) == 1 for note in accumulated)
        if undivided and is_over_objectives(self.site.location):
            return None
        by_usual = [note for note in known if not note.right and divided_by(note.share, usual)]
        short = [note for note in by_usual if note.size < usual]
        long = [note for note in by_usual if note.size > usual]
        counted = [note for note in accumulated if note.right and note.counts]
        unequal = [note for note in counted if max(note.counts) > 1.02 * min(note.counts)]
        return Accumulation(
            id=f"accumulation {optimizer} {self.site.id}",
            subject=self.site.id,
            windows=len(self.notes),
            accumulated=len(accumulated),
            usual=usual,
            usual_windows=sum(note.size == usual for note in known),
            divisor=divisor,
            right=sum(note.right for note in accumulated),
            undivided=undivided,
            otherwise=sum(
                note.size == usual and not note.right and _nearest(note, usual) not in (1, usual) for note in known
            ),
            short=len(short),
            first_short_step=short[0].step if short else None,
            short_size=short[0].size if short else 0,
            long=len(long),
            first_long_step=long[0].step if long else None,
            long_size=long[0].size if long else 0,
            unequal=len(unequal),
            counted=len(counted),
            counts=unequal[0].counts[:8] if unequal else (),
            first_unequal_step=unequal[0].step if unequal else None,
            backward_at=self.site.location,
            optimizer=optimizer,
        )


def _note(step: int, shares: list[Share | None], together: int) -> _Note:
    """A ratio is a mean over a count of its own where the count differs; where it does not, it may be that of all."""
    given = [share for share in shares if share is not None]
    counts = tuple(share.count for share in given if share.count is not None)
    ratios = [share.kind == "ratio" for share in given]
    # A mean over one element is as much a sum: over the moves of an episode, say.
    sums = all(share.count == 1 and not share.divisors for share in given)
    unknown = len(given) < len(shares) or sums or any(share.kind in ("unknown", "sum") for share in given)
    if unknown or (any(ratios) and not (all(ratios) and len(set(counts)) > 1)):
        return _Note(step, len(shares), None, False, ())
    weights = [1 / math.prod(share.divisors + share.weights) for share in given]
    same = len({(share.divisors, share.weights) for share in given}) == 1
    share = given[0] if same else None
    right = _close(sum(weights), 1) or any(divided_by(share, number) for number in {len(shares), together} - {1})
    equal = same and len(counts) == len(shares)
    return _Note(step, len(shares), share, right, counts if equal else ())


def divided_by(share: Share | None, number: float) -> bool:
    """Whether a product of some of the divisors is that: the others may be the loss's own."""
    if share is None:
        return False
    kept = (share.divisors + share.weights)[:5]
    some = (part for size in range(1, len(kept) + 1) for part in itertools.combinations(kept, size))
    return any(_close(math.prod(part), number) for part in some)


def _nearest(note: _Note, usual: int) -> float:
    """What the losses were divided by as far as it can be accumulation's: the usual number if that is among it."""
    if divided_by(note.share, usual) or (note.right and note.size == usual):
        return float(usual)
    divisors = note.share.divisors if note.share is not None else ()
    return next((float(round(number)) for number in divisors if number > 1.5 and _close(number, round(number))), 1.0)


def _close(number: float, other: float) -> bool:
    return abs(number - other) <= _CLOSE * abs(other)
