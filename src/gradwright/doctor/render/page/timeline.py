"""What was watched, step by step: how long each Function's forward and backward took in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gradwright.doctor.render.page.figures import Figure, figure, label, table
from gradwright.doctor.render.page.text import said, subject_names
from gradwright.doctor.render.wording import seconds
from gradwright.doctor.session.brought import rank_in
from gradwright.doctor.session.facts import Timeline
from gradwright.doctor.session.model import Report

_WHOM = 12  # parts of a bar; the rest is one more
_STEPS = 400  # bars; of more, each stands for several steps
_COLOURS = 6
_RANKS = 8  # plots

Piece = tuple[float, float, str, int]  # its beginning, its end, what it is, in which step


def timelines(report: Report) -> tuple[tuple[Figure, ...], int]:
    """A plot per rank that was timed, and how many spans were not kept."""
    names = subject_names(report)
    pieces: dict[str, list[Piece]] = defaultdict(list)
    dropped = 0
    for fact in report.of(Timeline):
        dropped += fact.dropped
        rank = rank_in(fact.id)
        columns = zip(fact.whom, fact.spans, fact.starts, fact.seconds, fact.steps, strict=False)
        pieces[f"rank {rank}: " if rank is not None else ""] += [
            (start, start + took, f"{names.get(whom) or said(whom, 60)}, {span}", step)
            for whom, span, start, took, step in columns
        ]
    return tuple(_figure(rank, own_time(spans)) for rank, spans in pieces.items() if spans)[:_RANKS], dropped


def own_time(pieces: Iterable[Piece]) -> list[tuple[str, int, float]]:
    """Each piece's time without that of the pieces inside it: a gradient call holds the backwards it runs.

    >>> own_time([(0.0, 10.0, "gradient call", 1), (2.0, 5.0, "backward", 1), (6.0, 7.0, "backward", 1)])
    [('gradient call', 1, 6.0), ('backward', 1, 3.0), ('backward', 1, 1.0)]
    """
    order = sorted(pieces, key=lambda piece: (piece[0], -piece[1]))
    own = [end - start for start, end, _, _ in order]
    around: list[int] = []
    for at, (start, end, _, _) in enumerate(order):
        while around and order[around[-1]][1] <= start:
            around.pop()
        if around:
            own[around[-1]] -= min(end, order[around[-1]][1]) - start
        around.append(at)
    return [(what, step, max(0.0, took)) for (_, _, what, step), took in zip(order, own, strict=True)]


def _figure(rank: str, spans: list[tuple[str, int, float]]) -> Figure:
    totals: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for what, step, took in spans:
        totals[what][step] += took
    order = sorted(totals, key=lambda name: -sum(totals[name].values()))
    for name in order[_WHOM:]:
        for step, took in totals.pop(name).items():
            totals["all else"][step] += took
    kept = sorted(totals.items(), key=lambda item: -sum(item[1].values()))
    steps = sorted({step for one in totals.values() for step in one})
    width = -(-len(steps) // _STEPS)
    bars = [steps[at : at + width] for at in range(0, len(steps), width)]
    traces = [
        {
            "type": "bar",
            "name": label(name, 40),
            "x": [bar[0] for bar in bars],
            "y": [sum(one.get(step, 0.0) for step in bar) for bar in bars],
            "marker": {"color": f"@series{at % _COLOURS}"},
        }
        for at, (name, one) in enumerate(kept)
    ]
    of = "each step" if width == 1 else f"every {width} steps"
    layout = {
        "barmode": "stack",
        "bargap": 0.1,
        "showlegend": True,
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
    }
    rows = [(name, seconds(sum(one.values())), f"{len(one):,}") for name, one in kept]
    beside = table(("what", "time in all, without that of what it holds", "in how many steps"), rows)
    return figure(f"{rank}time of {of} that was watched, by what it went into", traces, layout, beside, 340)
