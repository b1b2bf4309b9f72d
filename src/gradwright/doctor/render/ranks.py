"""What a report says of several ranks: which of them, and what they did differently."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwright.doctor.render.wording import clean, counted
from gradwright.doctor.session.facts import RankRun, RanksDiffer
from gradwright.doctor.session.model import Report

_LISTED = 8


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


def between(report: Report) -> tuple[str, ...]:
    """A line for each thing that ranks did differently; empty for a lone process. What a finding says is left out.

    >>> between(Report(facts=(RanksDiffer(id="d", subject="script", what="steps", values=((0, "40"), (1, "38"))),)))
    ('steps: 40 on rank 0, 38 on rank 1',)
    """
    lines = [f"rank {run.rank} has no session: {clean(run.missing)}" for run in report.of(RankRun) if run.missing]
    for fact in report.of(RanksDiffer):
        if re.match(r"GW\d{3} at ", fact.what) is None:
            lines.append(f"{clean(fact.what)}: {_values(fact)}")
    more = len(lines) - _LISTED
    return (*lines[:_LISTED], f"and {counted(more, 'more difference')}, all in the JSON") if more > 0 else tuple(lines)


def _values(fact: RanksDiffer) -> str:
    ranks: dict[str, list[int]] = {}
    for rank, word in fact.values:
        ranks.setdefault(word, []).append(rank)
    return ", ".join(f"{clean(word)} {on_ranks(those)}" for word, those in ranks.items())
