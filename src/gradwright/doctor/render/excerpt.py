"""The user's lines as they are shown: an excerpt with the guilty columns marked, and the body of a diff.

Text that leaves here holds no tab and no control character, so a character index and a marked column mean the same.
"""

from __future__ import annotations

import functools
import re
import textwrap
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len

from gradwright.doctor.render.wording import UNSHOWABLE
from gradwright.doctor.session.place import Location

_BEFORE = 2  # lines of context above
_MOST = 4  # lines shown of a place that spans many
_FAR = 6  # lines between a loop and its hot expression before a gap is cut
_KEPT_INDENT = 4
_TAB = 4
_LONGEST = 10_000  # characters of a line; what lies beyond is not shown, marked or not
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of source. ``mark`` is the half-open range of marked characters; ``number == 0`` is a gap."""

    number: int
    text: str
    mark: tuple[int, int] | None = None
    label: str = ""

    @property
    def parts(self) -> tuple[str, str, str]:
        """Before, inside and after the mark."""
        start, end = self.mark or (len(self.text), len(self.text))
        return self.text[:start], self.text[start:end], self.text[end:]


@dataclass(frozen=True, slots=True)
class DiffLine:
    sign: Literal["-", "+"]
    text: str


def excerpt(source: str, at: Location, focus: Location | None = None, label: str = "") -> tuple[Line, ...]:
    """The lines around ``at``, with ``focus`` (or ``at`` itself) marked and labelled; empty if there is no such line.

    >>> for line in excerpt("for i in r:\\n    y[i] = x[i]\\n", Location("a.py", 2, 5, 2, 9)):
    ...     print(line.number, line.parts)
    1 ('for i in r:', '', '')
    2 ('    ', 'y[i]', ' = x[i]')
    """
    lines = _lines(source)
    target = focus or at
    if not (0 < at.line <= len(lines) and 0 < target.line <= len(lines)):
        return ()
    shown = [number for number in _numbers(lines, at, target) if number <= len(lines)]
    made = [_line(number, lines[number - 1], target, label) for number in shown]
    indents = [len(line.text) - len(line.text.lstrip()) for line in made if line.text.strip()]
    made = [_shifted(line, max(0, min(indents, default=0) - _KEPT_INDENT)) for line in made]
    gap = next((at for at in range(1, len(shown)) if shown[at] > shown[at - 1] + 1), None)
    return tuple(made) if gap is None else (*made[:gap], Line(0, ""), *made[gap:])


@functools.lru_cache(maxsize=64)
def _lines(source: str) -> tuple[str, ...]:
    """Hundreds of findings in one file read it once."""
    return tuple(re.split(r"\r\n|\r|\n", source))


def _numbers(lines: tuple[str, ...], at: Location, target: Location) -> list[int]:
    last = max(target.line, min(target.end_line, target.line + _MOST - 1))
    first = target.line
    while first > max(1, target.line - _BEFORE) and lines[first - 2].strip():
        first -= 1
    if at.line >= first or at.line > last:
        return list(range(first, last + 1))
    if target.line - at.line <= _FAR:
        return list(range(at.line, last + 1))
    return [at.line, *range(first, last + 1)]


def _line(number: int, raw: str, target: Location, label: str) -> Line:
    raw = raw if len(raw) <= _LONGEST else raw[:_LONGEST] + "…"
    text, starts = _expanded(raw)
    if number != target.line or not text.strip():
        return Line(number, text)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if target.end_line >= target.line:  # the columns are known
        start = max(start, starts[min(max(target.column - 1, 0), len(raw))])
        if target.end_line == target.line and target.end_column > target.column:
            end = min(end, starts[min(target.end_column - 1, len(raw))])
    return Line(number, text, (start, end) if start < end else None, label)


def _expanded(raw: str) -> tuple[str, list[int]]:
    """The line as it can be shown, and where each of its characters went (one more, for the end)."""
    if raw.isascii() and raw.isprintable():
        return raw, list(range(len(raw) + 1))
    made, starts, cells = [], [], 0
    length = 0
    for character in raw:
        starts.append(length)
        piece = " " * (_TAB - cells % _TAB) if character == "\t" else UNSHOWABLE.sub("\ufffd", character)
        made.append(piece)
        length += len(piece)
        cells += cell_len(piece)
    return "".join(made), [*starts, length]


def _shifted(line: Line, by: int) -> Line:
    mark = (line.mark[0] - by, line.mark[1] - by) if line.mark else None
    return replace(line, text=line.text[by:].rstrip(), mark=mark)


def diff_body(diff: str, shown: frozenset[int] = frozenset(), most: int = 12) -> tuple[DiffLine, ...]:
    """What a unified diff takes and gives, dedented. Removed lines that already stand above (``shown``) are counted.

    >>> diff = "--- a\\n+++ b\\n@@ -1,2 +1 @@\\n-  x = 1\\n-  y = 1\\n+  x = y = 1\\n"
    >>> for line in diff_body(diff, frozenset({1, 2})):
    ...     print(line.sign, line.text)
    - 2 lines
    + x = y = 1
    """
    body: list[DiffLine] = []
    for signs in _runs(diff):
        texts = textwrap.dedent("\n".join(_expanded(text)[0].rstrip() for _, _, text in signs)).split("\n")
        for sign in ("-", "+"):
            run = [(number, text) for (kind, number, _), text in zip(signs, texts, strict=True) if kind == sign]
            if sign == "-" and len(run) > 1 and all(number in shown for number, _ in run):
                body.append(DiffLine("-", f"{len(run)} lines"))
                continue
            body += [DiffLine("+" if sign == "+" else "-", text) for _, text in run[:most]]
            if len(run) > most:
                body.append(DiffLine("+" if sign == "+" else "-", f"... {len(run) - most} more lines"))
    return tuple(body)


def _runs(diff: str) -> list[list[tuple[str, int, str]]]:
    """Stretches of changed lines as (sign, number in the old file, text); counts of ``@@`` say where hunks end."""
    runs: list[list[tuple[str, int, str]]] = [[]]
    number, old, new = 0, 0, 0
    for line in diff.split("\n"):
        if old <= 0 and new <= 0:
            header = _HUNK.match(line)
            if header:
                number = int(header[1])
                old, new = int(header[2] or 1), int(header[3] or 1)
                runs.append([])
            continue
        sign, text = line[:1] or " ", line[1:].removesuffix("\r")
        if sign == "-":
            runs[-1].append(("-", number, text))
        elif sign == "+":
            runs[-1].append(("+", 0, text))
        elif sign == " " and runs[-1]:
            runs.append([])
        old -= sign in "- "
        new -= sign in "+ "
        number += sign in "- "
    return [run for run in runs if run]
