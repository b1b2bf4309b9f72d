"""What passed the taps, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwright.functions.tap import layout
from gradwright.functions.tap.numbers import counted, number, share, tensor_label
from gradwright.functions.tap.records import NotSeen, Row

if TYPE_CHECKING:
    from gradwright.functions.tap.session import Taps

_HEADS = ("norm", "min", "mean", "max", "zero", "NaN", "inf")


def as_text(taps: Taps, width: int) -> str:
    return layout.as_text(table(taps), width)


def as_html(taps: Taps) -> str:
    return layout.as_html(table(taps))


def table(taps: Taps) -> layout.Table:
    """One line per row, notes on what the figures mean and on what was not seen."""
    rows = taps.rows
    axis = layout.Axis.of(row.combined for row in rows)
    columns = (
        layout.Column("tap", "left", least=10),
        layout.Column("", "left"),
        layout.Column("seen"),
        layout.Column("tensor", "left", least=9),
        *(layout.Column(head) for head in _HEADS),
        layout.Column(axis.head, "bars"),
    )
    lines = []
    for at, row in enumerate(rows):
        again = at > 0 and rows[at - 1].name == row.name
        bad = row.combined.nans + row.combined.infs > 0
        lines.append(layout.Line(_cells(row, axis, "" if again else row.name), "bad" if bad else ""))
    total = sum(row.passages for row in rows)
    taps_count = len({row.name for row in rows})
    title = f"{counted(taps_count, 'tap')}, {counted(total, 'passage')}" if rows else "no tensor passed a tap"
    return layout.Table(title, columns, tuple(lines), tuple(_notes(taps, rows)))


def _cells(row: Row, axis: layout.Axis, name: str) -> tuple[str, ...]:
    figures = row.combined
    values = (row.mean_norm, figures.minimum, figures.mean, figures.maximum)
    counts = (figures.zeros, figures.nans, figures.infs)
    return (
        name,
        row.direction,
        str(row.passages),
        tensor_label(row.dtype, row.shape),
        *map(number, values),
        *(share(count, figures.elements) for count in counts),
        axis.bars(figures),
    )


def _notes(taps: Taps, rows: tuple[Row, ...]) -> list[str]:
    notes = []
    if any(row.passages > 1 for row in rows):
        notes.append("norm: mean over the passages; the other figures: over all entries that passed")
    if any(row.combined.nans + row.combined.infs for row in rows):
        notes.append("norm, min, mean and max are those of the finite entries")
    if taps.without_gradient:
        notes.append(
            f"no gradient came back to {', '.join(taps.without_gradient)}: the loss does not use it, or a view was "
            "changed in place after the tap"
        )
    reasons = dict.fromkeys(entry.why for entry in taps.not_seen)
    return notes + [_unseen(why, [entry for entry in taps.not_seen if entry.why == why]) for why in reasons]


def _unseen(why: str, entries: list[NotSeen]) -> str:
    told = (
        f"{name} ({direction}, {counted(times, 'time')})" if times else name for name, direction, _, times in entries
    )
    return f"not seen, {why}: {', '.join(told)}"
