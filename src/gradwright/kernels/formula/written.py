"""What was written, and errors that point into it."""

from __future__ import annotations

import ast
import unicodedata
from dataclasses import dataclass

from gradwright.errors import UsageError

_WIDEST = 100  # characters of a line that an error shows


@dataclass(frozen=True)
class Place:
    """Of a character: its line, counted from 1, and how many bytes of UTF-8 stand before it, as ``ast`` has it."""

    line: int
    offset: int


@dataclass(frozen=True)
class Written:
    """The lines that an ``ast`` was parsed from. ``label``: file and function, empty for a formula given as text."""

    lines: tuple[str, ...]
    label: str = ""
    # Bytes that were put before the first line for the parser, and that its author never saw.
    ahead: int = 0

    def start(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Place:
        return Place(node.lineno, node.col_offset)

    def after(self, node: ast.expr, symbol: str) -> Place:
        """Where the symbol stands that follows a node: of an operator, behind its left operand."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        line, offset = node.end_lineno, node.end_col_offset
        while line <= len(self.lines):
            text = self._bytes(line)
            # A comment between operand and operator is nobody's concern: at worst the caret points into it.
            found = text.find(symbol.encode(), offset)
            if found >= 0:
                return Place(line, found)
            line, offset = line + 1, 0
        return self.start(node)

    def segment(self, node: ast.expr) -> str:
        """The text of an expression that stands on one line; "this", where it is longer."""
        if node.lineno != node.end_lineno:
            return "this"
        text = self._bytes(node.lineno)[node.col_offset : node.end_col_offset].decode()
        return text if len(text) <= 40 else "this"

    def refusal(self, place: Place, what: str, *, why: str, do: str) -> UsageError:
        """An error that shows the line, with a caret under the column."""
        ahead = self.ahead if place.line == 1 else 0
        line = self._bytes(place.line).decode() if place.line <= len(self.lines) else ""
        column = len(self._bytes(place.line)[: place.offset].decode(errors="ignore")) if line else 0
        line, column = line[ahead:], max(column - ahead, 0)
        shown, pad = _excerpt(line, column)
        where = f"column {column + 1}"
        if self.label:
            where = f"{self.label}, line {place.line}, column {column + 1}"
        elif len(self.lines) > 1:
            where = f"line {place.line}, column {column + 1}"
        title = "this formula can't be read" if not self.label else "this function can't be read as a formula"
        return UsageError(
            f"{title}: {what}\n  where  {where}\n         {shown}\n         {pad}^\n  why    {why}\n  do     {do}"
        )

    def _bytes(self, line: int) -> bytes:
        return self.lines[line - 1].encode(errors="replace")


def _excerpt(line: str, column: int) -> tuple[str, str]:
    """The line, or what of it is near the column, and the blanks that stand before the caret below it."""
    line = line.rstrip()
    first = len(line) - len(line.lstrip())
    if len(line) - first > _WIDEST:
        first = max(first, min(column - _WIDEST // 2, len(line) - _WIDEST))
    before, cut = ("…", first) if line[:first].strip() else ("", first)
    after = "…" if len(line) > cut + _WIDEST else ""
    blanks = "".join("\t" if c == "\t" else " " * _columns(c) for c in line[cut : max(column, cut)])
    beyond = " " * max(column - max(len(line), cut), 0)
    return before + line[cut : cut + _WIDEST] + after, " " * len(before) + blanks + beyond


def _columns(character: str) -> int:
    """How many columns of a terminal it takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
