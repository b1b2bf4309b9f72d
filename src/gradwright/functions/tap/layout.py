"""A table as text and as HTML, and the histogram in a line of blocks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Literal

from gradwright.functions.tap.numbers import number
from gradwright.functions.tap.records import Statistics

CELLS = 14
_WIDEST_STEP = 4  # octaves per letter: 14 letters then hold 17 decades
_NEARLY_ALL = 0.98
_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN = str.maketrans("▁▂▃▄▅▆▇█·…×", ".:-=+*%@.~x")
_STYLE = """
.gradwright-tap table { font-size: 13px; border-collapse: collapse; background: none; color: inherit; }
.gradwright-tap th, .gradwright-tap td { padding: .1em .7em .1em 0; border: 0; background: none; text-align: right; \
white-space: pre; }
.gradwright-tap th { font-weight: normal; opacity: .65; }
.gradwright-tap .left { text-align: left; }
.gradwright-tap .bars { text-align: left; font-family: monospace; }
.gradwright-tap .bad { color: #d6453d; }
.gradwright-tap .head { font-weight: bold; }
"""


@dataclass(frozen=True, slots=True)
class Column:
    """``least``: to how many letters it may be narrowed where the table is too wide, 0 for not at all."""

    head: str
    kind: Literal["left", "right", "bars"] = "right"
    least: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """``tone``: how HTML shows it."""

    cells: tuple[str, ...]
    tone: Literal["", "bad", "head"] = ""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Axis:
    """The magnitudes that the letters of every histogram in a table stand for, ``step`` octaves each from
    ``2**low`` on; what lies beyond either end is in the letter there."""

    low: int
    step: int

    @classmethod
    def of(cls, all_figures: Iterable[Statistics]) -> Axis:
        """The finest axis that shows nearly all entries, each tensor as important as any other."""
        weights: dict[int, float] = {}
        for figures in all_figures:
            total = sum(octave.entries for octave in figures.octaves)
            for octave in figures.octaves:
                weights[octave.exponent] = weights.get(octave.exponent, 0.0) + octave.entries / total
        if not weights:
            return cls(-CELLS, 1)
        whole = sum(weights.values())
        for step in range(1, _WIDEST_STEP + 1):
            ends = range(min(weights) + 1, max(weights) + 2)
            covered = {end: sum(weights.get(k, 0.0) for k in range(end - CELLS * step, end)) for end in ends}
            end = max(ends, key=lambda end: (round(covered[end], 9), end))
            if covered[end] >= _NEARLY_ALL * whole or step == _WIDEST_STEP:
                return cls(end - CELLS * step, step)
        raise AssertionError  # the last step returns

    @property
    def head(self) -> str:
        """The least and the largest magnitude at the ends: ``6e-8  |x|   16``."""
        ends = [f"{math.ldexp(1.0, exponent):.0e}" for exponent in (self.low, min(self.low + CELLS * self.step, 1023))]
        low, high = (number(float(end)) for end in ends)
        return low + "|x|".center(CELLS - len(low) - len(high)) + high

    def bars(self, figures: Statistics | None) -> str:
        """A letter per ``step`` octaves, its height the share of entries; blank for none. Zeros are in none."""
        cells = [0] * CELLS
        if figures is not None:
            cells[0] += figures.tiny
            for octave in figures.octaves:
                cells[min(CELLS - 1, max(0, (octave.exponent - self.low) // self.step))] += octave.entries
        most = max(cells)
        return "".join(
            _BLOCKS[min(len(_BLOCKS) - 1, count * len(_BLOCKS) // most)] if count else " " for count in cells
        )


def as_text(table: Table, width: int) -> str:
    """The table for a terminal of ``width`` columns; names too long lose their middle."""
    from rich.cells import cell_len

    from gradwright.checking.shown import plain

    table = _filled(table)
    rows = [tuple(plain(cell) for cell in cells) for cells in (_heads(table), *(line.cells for line in table.lines))]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
    room = width - gap * (len(widths) - 1)
    for at, column in sorted(enumerate(table.columns), key=lambda item: -item[1].least):
        over = sum(widths) - room
        if over > 0 and column.least:
            widths[at] = max(min(widths[at], column.least), widths[at] - over)
    lines = [
        (" " * gap)
        .join(_fitted(cell, size, column) for cell, size, column in zip(row, widths, table.columns, strict=True))
        .rstrip()
        for row in rows
    ]
    notes = (folded for note in table.notes for folded in _folded(plain(note), width))
    return "\n".join([plain(table.title), *(["", *lines] if table.lines else []), *_spaced(notes)]) + "\n"


def as_html(table: Table) -> str:
    """The table for a notebook: one ``<div>``, no script, nothing fetched; every text from outside is escaped."""
    from gradwright.checking.shown import plain

    table = _filled(table)
    classes = ["left" if column.kind == "left" else column.kind for column in table.columns]

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="{kind}">{escape(plain(cell))}</{tag}>' for cell, kind in zip(cells, classes, strict=True)
        )

    head = f"<thead><tr>{row(_heads(table), 'th')}</tr></thead>"
    body = "".join(f'<tr class="{line.tone}">{row(line.cells, "td")}</tr>' for line in table.lines)
    shown = f"<table>{head}<tbody>{body}</tbody></table>" if table.lines else ""
    notes = "".join(f"<p>{escape(plain(note))}</p>" for note in table.notes)
    title = f"<p><b>{escape(plain(table.title))}</b></p>"
    return f'<div class="gradwright-tap"><style>{_STYLE}</style>{title}{shown}{notes}</div>'


def for_stdout(text: str) -> str:
    """``text`` in letters that the standard output can show: ASCII for bars and dots where it is no UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN)
    return text


def _filled(table: Table) -> Table:
    """Without the columns that no line has anything in."""
    kept = [at for at in range(len(table.columns)) if any(line.cells[at].strip() for line in table.lines)]
    lines = tuple(replace(line, cells=tuple(line.cells[at] for at in kept)) for line in table.lines)
    return replace(table, columns=tuple(table.columns[at] for at in kept), lines=lines)


def _heads(table: Table) -> tuple[str, ...]:
    return tuple(column.head for column in table.columns)


def _fitted(cell: str, width: int, column: Column) -> str:
    from rich.cells import cell_len, set_cell_size

    over = cell_len(cell) - width
    if over > 0:
        ahead = (width - 1) // 2
        tail = cell
        while cell_len(tail) > width - 1 - ahead:
            tail = tail[1:]
        cell = f"{set_cell_size(cell, ahead)}…{tail}"
    blank = " " * (width - cell_len(cell))
    return blank + cell if column.kind == "right" else cell + blank


def _folded(note: str, width: int) -> Iterator[str]:
    import textwrap

    yield from textwrap.wrap(note, width, subsequent_indent="  ", break_on_hyphens=False) or [""]


def _spaced(lines: Iterable[str]) -> list[str]:
    told = list(lines)
    return ["", *told] if told else []
