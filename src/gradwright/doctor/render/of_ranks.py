"""Ranks in words, and where they part over a gradient."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.doctor.session.facts import RanksDiffer
from gradwright.doctor.session.model import Report

GRADIENT = "gradient of "  # so begins what ranks differ in where their verdicts on a Function do


def on_ranks(ranks: Sequence[int]) -> str:
    """``on rank 1``, ``on ranks 1, 2 and 5``; of many the first few.

    >>> on_ranks([3]), on_ranks([0, 2, 3]), on_ranks(range(64))
    ('on rank 3', 'on ranks 0, 2 and 3', 'on ranks 0, 1, 2, 3 and 60 others')
    """
    if len(ranks) == 1:
        return f"on rank {ranks[0]}"
    shown = [str(rank) for rank in ranks] if len(ranks) <= 6 else [str(rank) for rank in ranks[:4]]
    last = shown.pop() if len(ranks) <= 6 else f"{len(ranks) - 4} others"
    return f"on ranks {', '.join(shown)} and {last}"


def wrong_on(report: Report, subject: str) -> list[int]:
    """The ranks that found a Function's gradient wrong where others did not; none where all agree."""
    for fact in report.of(RanksDiffer, subject):
        if fact.what.startswith(GRADIENT):
            return [rank for rank, word in fact.values if word == "wrong"]
    return []
