"""A file of the user's as bytes and as lines: encoding, byte order mark and line ends stay what they are."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

from gradwright.doctor.session.hunks import Edit

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class NotWritable(Exception):
    """This file can't get its new text, and stays as it is; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Text:
    """``lines`` with the ends that they have in the file, ``\\n`` in ``plain``, which is what sessions hold."""

    encoding: str
    lines: tuple[str, ...]

    @property
    def plain(self) -> list[str]:
        return [re.sub(r"\r\n?$", "\n", line) for line in self.lines]

    def with_edits(self, edits: Iterable[Edit]) -> bytes:
        """The file's new bytes. Raises: NotWritable, if its encoding has no such characters."""
        made: list[str] = []
        at = 0
        for edit in sorted(edits, key=lambda edit: (edit.first, edit.last)):
            end = self._end_at(edit.first)
            made += self.lines[at : edit.first]
            made += [line[:-1] + end if line.endswith("\n") else line for line in edit.new]
            at = edit.last
        made += self.lines[at:]
        try:
            return "".join(made).encode(self.encoding)
        except UnicodeEncodeError as error:
            what = error.object[error.start : error.end]
            raise NotWritable(
                f"the fix needs {what!r}, which its encoding ({self.encoding}) does not have: save it as UTF-8"
            ) from None

    def _end_at(self, line: int) -> str:
        """How the line that is there ends, or the one before it, or the file's first."""
        for index in (line, line - 1, 0):
            if 0 <= index < len(self.lines):
                end = self.lines[index][len(self.lines[index].rstrip("\r\n")) :]
                if end:
                    return end
        return "\n"


def read_text(data: bytes) -> Text:
    """A file's bytes as Python reads them. Raises: NotWritable, where they can't be had back from what was read.

    >>> read_text(b"# coding: latin-1\\r\\nname = '\\xe9'\\r\\n")
    Text(encoding='iso-8859-1', lines=('# coding: latin-1\\r\\n', "name = 'é'\\r\\n"))
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        same = text.encode(encoding) == data
    except (SyntaxError, UnicodeError) as error:
        raise NotWritable(f"its encoding can't be read: {error}") from None
    if not same:
        raise NotWritable(f"its encoding ({encoding}) can't be written back byte for byte: save it as UTF-8")
    return Text(encoding, tuple(_LINE.findall(text)))


def byte_lines(data: bytes) -> list[str]:
    """The lines that ``patch`` sees, one character a byte.

    >>> byte_lines(b"a\\r\\nb\\x0cc")
    ['a\\r\\n', 'b\\x0cc']
    """
    *whole, rest = data.decode("latin-1").split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])
