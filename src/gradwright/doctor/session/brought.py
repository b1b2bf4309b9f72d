"""Ids in a session merged from several ranks: the first rank's stay as they are, others say whose they were."""

from __future__ import annotations

import re

_OF_RANK = re.compile(r"rank (\d{1,9}): ")


def of_rank(rank: int, item: str) -> str:
    """The id of another rank's item.

    >>> of_rank(1, "calls f")
    'rank 1: calls f'
    """
    return f"rank {rank}: {item}"


def rank_in(item: str) -> int | None:
    """The rank that an id says, ``None`` where it is one of the first's.

    >>> rank_in("rank 1: calls f"), rank_in("calls f")
    (1, None)
    """
    found = _OF_RANK.match(item)
    return int(found[1]) if found else None
