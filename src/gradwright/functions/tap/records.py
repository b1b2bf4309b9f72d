"""What is known of the values of a tensor, once the tensor is gone: frozen figures, no tensor in them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Direction = Literal["forward", "backward", "in backward"]


class Octave(NamedTuple):
    """How many entries lie in ``2**exponent <= |x| < 2**(exponent + 1)``, by sign."""

    exponent: int
    negative: int
    positive: int

    @property
    def entries(self) -> int:
        return self.negative + self.positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Figures of a tensor's values, computed in float64, or from float64 sums.

    ``elements``: how many entries there are. ``norm`` (L2), ``minimum``, ``maximum`` and ``mean`` are those of the
    finite entries: one NaN does not hide the rest; NaN if there is no finite entry. ``zeros``, ``nans``, ``infs``:
    how many entries are that. ``octaves``: the histogram of magnitudes, by powers of two, those that are not empty;
    ``tiny``: non-zero entries below the smallest normal number of the dtype (float32's for narrower ones).
    For a complex tensor every figure is that of the magnitudes.
    """

    elements: int
    norm: float
    minimum: float
    maximum: float
    mean: float
    zeros: int
    nans: int
    infs: int
    tiny: int
    octaves: tuple[Octave, ...]

    @property
    def finite(self) -> int:
        return self.elements - self.nans - self.infs

    @property
    def share_of_zeros(self) -> float:
        return self.zeros / self.elements if self.elements else 0.0

    @property
    def share_of_nan(self) -> float:
        return self.nans / self.elements if self.elements else 0.0

    @property
    def share_of_inf(self) -> float:
        return self.infs / self.elements if self.elements else 0.0

    @property
    def typical(self) -> float:
        """Root mean square of the finite entries that are not zero; 0 if there is none."""
        count = self.finite - self.zeros
        return self.norm / math.sqrt(count) if count > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Statistics):
    """One tensor that passed a tap. ``number`` counts the calls of this tap, from 0; a gradient has the number of the
    call that it came back to. ``dtype`` is torch's name without ``torch.``."""

    name: str
    direction: Direction
    number: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All passages of one tap in one direction.

    ``combined``: figures over all elements that passed. ``mean_norm``: the mean of the passages' norms. ``shape``:
    that of every passage, ``None`` for an axis whose size changed; ``None`` where the number of axes did. ``dtype``:
    "mixed" if there were several. ``latest``: the last passage.
    """

    name: str
    direction: Direction
    passages: int
    mean_norm: float
    combined: Statistics
    shape: tuple[int | None, ...] | None
    dtype: str
    latest: Passage


class NotSeen(NamedTuple):
    """Something that went through a tap unmeasured, why, and how often (0: not known)."""

    name: str
    direction: Direction
    why: str
    times: int


def combined(parts: Iterable[Statistics]) -> Statistics | None:
    """The figures of all entries of ``parts`` together, as if they were one tensor; ``None`` if there is no part."""
    known = list(parts)
    if not known:
        return None
    measured = [part for part in known if part.finite]
    finite = sum(part.finite for part in measured)
    bins: dict[int, tuple[int, int]] = {}
    for part in known:
        for exponent, negative, positive in part.octaves:
            before = bins.get(exponent, (0, 0))
            bins[exponent] = (before[0] + negative, before[1] + positive)
    return Statistics(
        elements=sum(part.elements for part in known),
        norm=math.hypot(*(part.norm for part in measured)) if measured else math.nan,
        minimum=min((part.minimum for part in measured), default=math.nan),
        maximum=max((part.maximum for part in measured), default=math.nan),
        mean=sum(part.mean * (part.finite / finite) for part in measured) if measured else math.nan,
        zeros=sum(part.zeros for part in known),
        nans=sum(part.nans for part in known),
        infs=sum(part.infs for part in known),
        tiny=sum(part.tiny for part in known),
        octaves=tuple(Octave(exponent, *counts) for exponent, counts in sorted(bins.items())),
    )
