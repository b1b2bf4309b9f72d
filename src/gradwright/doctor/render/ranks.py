"""What a report says of several ranks: which of them, and what they did differently."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradwright.doctor.render.of_ranks import on_ranks
from gradwright.doctor.render.wording import clean, counted
from gradwright.doctor.session.facts import RankRun, RanksDiffer
from gradwright.doctor.session.model import Report

_LISTED = 8


def ill_ends(report: Report) -> list[str]:
    """What no finding tells: ranks that ended ill, and ranks without a session.

    >>> from dataclasses import replace
    >>> runs = [RankRun(id=str(n), subject="script", rank=n, world_size=3, session="") for n in range(3)]
    >>> runs[1:] = [replace(runs[1], unexplained="exited 7"), replace(runs[2], missing="it was gone")]
    >>> ill_ends(Report(facts=tuple(runs)))
    ['no rule explains how rank 1 ended', 'rank 2 has no session']
    """
    runs = list(report.of(RankRun))
    ill = [run.rank for run in runs if run.unexplained and not run.missing]
    missing = [run.rank for run in runs if run.missing]
    told = [f"no rule explains how {_named(ill)} ended"] if ill else []
    return [*told, f"{_named(missing)} {'has' if len(missing) == 1 else 'have'} no session"] if missing else told


def _named(ranks: Sequence[int]) -> str:
    return on_ranks(ranks).removeprefix("on ")


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
