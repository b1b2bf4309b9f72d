"""All passages of one tap in one direction, folded as they come."""

from __future__ import annotations

import math

from gradwright.functions.tap.records import Direction, Passage, Row, Statistics, combined

_FOLD = 64


class Tally:
    def __init__(self) -> None:
        self._passages = 0
        self._norms, self._counted = 0.0, 0  # their sum, and of how many: an empty tensor has none
        self._figures: list[Statistics] = []  # of them all; folded into one now and then
        self._shape: tuple[int | None, ...] | None = None
        self._dtype = ""
        self._latest: Passage | None = None

    def add(self, passage: Passage) -> None:
        first = self._latest is None
        self._shape = passage.shape if first else _common(self._shape, passage.shape)
        self._dtype = passage.dtype if first or self._dtype == passage.dtype else "mixed"
        self._figures.append(passage)
        if len(self._figures) == _FOLD:
            self._fold()
        self._passages += 1
        if not math.isnan(passage.norm):
            self._norms, self._counted = self._norms + passage.norm, self._counted + 1
        self._latest = passage

    def row(self, name: str, direction: Direction) -> Row:
        assert self._latest is not None  # a tally is made for its first passage
        return Row(
            name=name,
            direction=direction,
            passages=self._passages,
            mean_norm=self._norms / self._counted if self._counted else math.nan,
            combined=self._fold(),
            shape=self._shape,
            dtype=self._dtype,
            latest=self._latest,
        )

    def _fold(self) -> Statistics:
        whole = combined(self._figures)
        assert whole is not None
        self._figures = [whole]
        return whole


def _common(one: tuple[int | None, ...] | None, other: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """The sizes that both shapes share, ``None`` elsewhere.

    >>> _common((8, 3), (9, 3)), _common((8,), (8, 1))
    ((None, 3), None)
    """
    if one is None or len(one) != len(other):
        return None
    return tuple(size if size == same else None for size, same in zip(one, other, strict=True))
