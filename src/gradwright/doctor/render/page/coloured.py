"""Python's words in their colours, line by line, as safe markup.

One regular expression reads a whole file, so that a line inside a string of many lines is known as one; it is several
times as fast as a lexer, and a wrong guess costs a colour, never a character.
"""

from __future__ import annotations

import itertools
import keyword
import re
import textwrap
from bisect import bisect_right
from dataclasses import dataclass

from markupsafe import Markup, escape

from gradwright.doctor.render.excerpt import Line
from gradwright.doctor.render.page.text import WIDEST
from gradwright.doctor.render.wording import UNSHOWABLE
from gradwright.doctor.session.model import Report

_LARGEST = 2_000_000  # characters of a file; a larger one stays plain
_TAB = 4

_STRINGS = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\Z)',
    r"'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)",
    r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?',
    r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'?",
)
_TOKEN = re.compile(
    r"(?P<c>#[^\n]*)"
    rf"|(?P<s>(?:\b[rbfuRBFU]{{1,2}})?(?:{'|'.join(_STRINGS)}))"
    r"|(?P<n>\b\d[\w.]*)"
    r"|(?P<f>(?<=\bdef )\w+|(?<=\bclass )\w+|(?m:^) *@[\w.]+)"
    rf"|(?P<k>\b(?:{'|'.join(keyword.kwlist)})\b)"
    r"|\w+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line ready to be laid out; ``number`` 0 is a gap."""

    number: int
    html: Markup
    marked: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    text: str
    starts: list[int]  # of lines
    begins: list[int]  # of coloured words
    words: list[tuple[int, int, str]]


class Coloured:
    """The sources of one report; each is read when a line of it is first asked for."""

    def __init__(self, report: Report) -> None:
        self._texts = {source.path: source.text for source in report.sources}
        self._read: dict[str, _Read] = {}

    def excerpt(self, path: str, lines: tuple[Line, ...]) -> tuple[CodeLine, ...]:
        """An excerpt's lines with their mark, each cut around it to what can be read."""
        made = []
        for line in lines:
            html = self._html(path, line.number, line.text, line.mark)
            made.append(CodeLine(line.number, html, line.mark is not None, line.label))
        return tuple(made)

    def numbered(self, path: str, first: int, last: int) -> tuple[CodeLine, ...]:
        """Whole lines of a file, from ``first`` to ``last`` as far as there are any; empty if the file is not known."""
        if path not in self._texts:
            return ()
        read = self._of(path)
        numbers = range(max(1, first), min(last, len(read.starts) - 1) + 1)
        texts = textwrap.dedent("\n".join(read.text[read.starts[at - 1] : read.starts[at] - 1] for at in numbers))
        lines = zip(numbers, texts.split("\n"), strict=bool(numbers))
        return tuple(CodeLine(at, self._html(path, at, text.rstrip())) for at, text in lines)

    def program(self, text: str) -> Markup:
        """Text that is no source of the report's, in its colours."""
        pieces, at = [], 0
        for found in _TOKEN.finditer(text):
            if found.lastgroup:
                pieces += [str(escape(text[at : found.start()])), _span(found.lastgroup, found.group())]
                at = found.end()
        return Markup("".join([*pieces, str(escape(text[at:]))]))

    def _html(self, path: str, number: int, text: str, mark: tuple[int, int] | None = None) -> Markup:
        start, end = mark or (len(text), len(text))
        left = max(0, start - WIDEST // 4) if mark and len(text) > WIDEST else 0
        right = min(len(text), left + WIDEST)
        kinds = self._kinds(path, number, text)
        within = (at for stretch in ((start, end, ""), *kinds) for at in stretch[:2] if left < at < right)
        edges = sorted({left, right, *within})
        pieces, marking = ["…"] if left else [], False
        for begin, stop in itertools.pairwise(edges):
            if marking != (start <= begin < end):
                pieces.append("</mark>" if marking else "<mark>")
                marking = not marking
            kind = next((kind for at, upto, kind in kinds if at <= begin < upto), "")
            pieces.append(_span(kind, text[begin:stop]))
        return Markup("".join([*pieces, "</mark>" * marking, "…" * (right < len(text))]))

    def _kinds(self, path: str, number: int, text: str) -> list[tuple[int, int, str]]:
        """Coloured stretches of a line as it is shown, which may lack some of its indentation."""
        if path not in self._texts or number < 1 or len(text) > 4 * WIDEST:
            return []
        read = self._of(path)
        if number >= len(read.starts):
            return []
        start, end = read.starts[number - 1], read.starts[number] - 1
        whole = read.text[start:end].rstrip()
        if not whole.endswith(text):
            return []
        offset = start + len(whole) - len(text)
        first, beyond = max(0, bisect_right(read.begins, start) - 1), bisect_right(read.begins, end - 1)
        return [
            (max(0, begin - offset), min(stop - offset, len(text)), kind)
            for begin, stop, kind in read.words[first:beyond]
            if stop > offset
        ]

    def _of(self, path: str) -> _Read:
        if path not in self._read:
            text = re.sub(r"\r\n|\r", "\n", self._texts[path])
            lines = text.split("\n")
            text = "\n".join(_shown(line) for line in lines)
            starts = [0]
            for line in text.split("\n"):
                starts.append(starts[-1] + len(line) + 1)
            words = []
            if len(text) <= _LARGEST:
                words = [(*found.span(), found.lastgroup) for found in _TOKEN.finditer(text) if found.lastgroup]
            self._read[path] = _Read(text, starts, [word[0] for word in words], words)
        return self._read[path]


def _span(kind: str, text: str) -> str:
    return f'<span class="{kind}">{escape(text)}</span>' if kind else str(escape(text))


def _shown(line: str) -> str:
    expanded = line.expandtabs(_TAB) if "\t" in line else line
    return expanded if expanded.isascii() and expanded.isprintable() else UNSHOWABLE.sub("\ufffd", expanded)
