"""Unified diffs: what one changes, read without any fuzz, and how a change is written as one."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_MISSING = "\\ No newline at end of file\n"
_PLAIN_NAME = re.compile(r"[^\x00-\x1f\x7f\"\\]+")
CONTEXT_LINES = 3


class DoesNotFit(Exception):
    """The diff was made of another text, or is none; the message says where."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Lines ``first`` up to, not including, ``last`` (counted from 0) become ``new``. Where they are equal, ``new`` is
    put in before that line."""

    first: int
    last: int
    new: tuple[str, ...]


def path_of(diff: str) -> str:
    """The file that a diff of one file changes.

    >>> path_of("--- my train.py\\n+++ my train.py\\n@@ -1 +1 @@\\n-x\\n+y\\n")
    'my train.py'
    """
    head = diff.split("\n", 1)[0]
    return head.removeprefix("--- ").split("\t")[0] if head.startswith("--- ") else ""


def edits_of(diff: str, lines: Sequence[str]) -> tuple[Edit, ...]:
    """The changes that ``diff`` makes to ``lines`` (with their ``\\n``), in order.

    Raises: DoesNotFit, where a line that the diff keeps or removes is not the one that stands there.

    >>> edits_of("--- a\\n+++ a\\n@@ -1,3 +1,2 @@\\n x\\n-y\\n-z\\n+Z\\n", ["x\\n", "y\\n", "z\\n"])
    (Edit(first=1, last=3, new=('Z\\n',)),)
    """
    made: list[Edit] = []
    for start, body in _hunks(diff):
        at, first, new = start, start, []
        for sign, text in (*body, (" ", None)):
            if sign == "+":
                new.append(text or "")
                continue
            if sign == " " and (at > first or new):
                made.append(Edit(first, at, tuple(new)))
                new = []
            if text is None:
                break
            if at >= len(lines) or lines[at] != text:
                raise DoesNotFit(f"line {at + 1} is not the one that the fix was made for")
            at += 1
            if sign == " ":
                first = at
    if not made:
        raise DoesNotFit("it changes nothing")
    return tuple(sorted(made))


def _hunks(diff: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Each hunk's first line (from 0) and its lines as (sign, text)."""
    lines = [line + "\n" for line in diff.split("\n")]
    at = 0
    while at < len(lines):
        head = _HUNK.match(lines[at])
        at += 1
        if head is None:
            continue
        number, old, new = int(head[1]), int(head[2] or 1), int(head[3] or 1)
        body: list[tuple[str, str]] = []
        while (old > 0 or new > 0) and at < len(lines):
            sign, text = lines[at][:1], lines[at][1:]
            if sign not in "-+ ":
                raise DoesNotFit("the diff is cut off")
            body.append((sign, text))
            old -= sign != "+"
            new -= sign != "-"
            at += 1
            if at < len(lines) and lines[at] == _MISSING:
                body[-1] = (sign, text.removesuffix("\n"))
                at += 1
        if old or new:
            raise DoesNotFit("the diff is cut off")
        yield (number if int(head[2] or 1) == 0 else number - 1), body


def applied(edits: Iterable[Edit], lines: Sequence[str]) -> list[str]:
    """``lines`` with the edits made; edits do not overlap, and those at one place stand in their order."""
    made: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.first, edit.last)):
        made += [*lines[at : edit.first], *edit.new]
        at = edit.last
    return [*made, *lines[at:]]


def unified(path: str, old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of a diff that ``patch -p0`` and ``git apply -p0`` take; empty if nothing changes.

    >>> print("".join(unified("a.py", ["x\\n", "y"], ["x\\n", "z"])), end="")
    --- a.py
    +++ a.py
    @@ -1,2 +1,2 @@
     x
    -y
    \\ No newline at end of file
    +z
    \\ No newline at end of file
    """
    name = _quoted(path)
    made = list(itertools.islice(difflib.unified_diff(old, new, n=CONTEXT_LINES), 2, None))
    if not made:
        return []
    body = itertools.chain.from_iterable((line,) if line.endswith("\n") else (line + "\n", _MISSING) for line in made)
    return [f"--- {name}\n", f"+++ {name}\n", *body]


def _quoted(path: str) -> str:
    """A name as patch and git read it: a tab ends one with blanks, C's quotes hold one with stranger things."""
    if _PLAIN_NAME.fullmatch(path):
        return path + "\t" if " " in path else path
    escaped = "".join(
        f"\\{character}"
        if character in '"\\'
        else character
        if character >= " " and character != "\x7f"
        else f"\\{ord(character):03o}"
        for character in path
    )
    return f'"{escaped}"'
