"""``# gradwright: ignore[GW301] reason``: what the user does not want to hear, and where."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_COMMENT = re.compile(r"#\s*gradwright:\s*ignore(?![\w-])(?:\s*\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)
_BLOCKS = {"def", "class", "for", "while"}
_QUIET = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


@dataclass(frozen=True, slots=True)
class _Mark:
    """One comment: the lines it speaks for, and the codes; no codes mean all."""

    line: int
    start: int
    end: int
    codes: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Suppressions:
    """The comments of one file.

    A comment speaks for the whole statement line it stands on (over all its physical lines) or, if it stands alone,
    for the next one; where that is the head of a ``def``, ``class``, ``for`` or ``while`` (or a decorator of one), for
    the whole block. ``ignore[GW301, GW302]`` names codes, or the beginning of codes (``GW3``); a bare ``ignore`` means
    all. What looks like a comment inside a string is none.

    >>> marks = Suppressions.of("for i in x:  # gradwright: ignore[GW301] only three rows\\n    y[i] = 2\\nz = 1\\n")
    >>> marks.covers("GW301", 2), marks.covers("GW302", 2), marks.covers("GW301", 3)
    (True, False, False)
    """

    marks: tuple[_Mark, ...] = ()

    @classmethod
    def of(cls, text: str) -> Suppressions:
        """Reads comments as far as the text can be split into tokens. Cost: about 5 ms per thousand lines."""
        return cls(tuple(_marks(text))) if _COMMENT.search(text) else cls()

    def covers(self, code: str, line: int, end_line: int = 0) -> bool:
        """Whether a finding is suppressed: its first line is spoken for, or a comment stands on one of its lines."""
        last = max(line, end_line)
        return any(
            (mark.start <= line <= mark.end or line <= mark.line <= last)
            and (mark.codes is None or any(code.startswith(known) for known in mark.codes))
            for mark in self.marks
        )


@dataclass
class _Line:
    """One logical line: its first and last physical line, its depth, its first words, the comments on or above it."""

    start: int
    end: int
    depth: int
    opens_block: bool
    decorator: bool
    comments: list[tuple[int, frozenset[str] | None]]


def _marks(text: str) -> list[_Mark]:
    lines = _logical_lines(text)
    found = []
    for number, line in enumerate(lines):
        if not line.comments:
            continue
        end = line.end
        head = number
        while lines[head].decorator and head + 1 < len(lines):
            head += 1
        if lines[head].opens_block:
            end = lines[head].end
            for inner in lines[head + 1 :]:
                if inner.depth <= lines[head].depth:
                    break
                end = inner.end
        found += [_Mark(at, line.start, end, codes) for at, codes in line.comments]
    return found


def _logical_lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    current: _Line | None = None
    waiting: list[tuple[int, frozenset[str] | None]] = []
    depth = 0
    words: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
            if token.type == tokenize.COMMENT:
                match = _COMMENT.search(token.string)
                if match is not None:
                    waiting.append((token.start[0], _codes(match)))
            elif token.type == tokenize.NEWLINE and current is not None:
                current.end = token.start[0]
                current.comments, waiting = waiting, []
                current.opens_block = bool(_BLOCKS & set(words[:2]))
                lines.append(current)
                current, words = None, []
            elif token.type not in _QUIET and token.type != tokenize.ENDMARKER:
                if current is None:
                    current = _Line(token.start[0], token.start[0], depth, False, token.string == "@", [])
                if len(words) < 2:
                    words.append(token.string if not words or words[0] == "async" else "")
    except (tokenize.TokenError, SyntaxError):
        pass  # a file that ends in the middle of something: what came before it counts
    return lines


def _codes(match: re.Match[str]) -> frozenset[str] | None:
    """The codes of a comment, ``None`` for all."""
    if match["codes"] is None:
        return None
    return frozenset(code.strip().upper() for code in match["codes"].split(",") if code.strip())
