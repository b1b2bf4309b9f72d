"""A file of the user's, read as Python reads it: declared encoding, byte order mark, any line ending."""

from __future__ import annotations

import ast
import importlib.util
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast


@dataclass(frozen=True, slots=True)
class SourceFile:
    """``path`` is absolute, ``text`` has ``\\n`` line ends. ``tree`` stays inside this room and is never changed."""

    path: str
    text: str
    tree: ast.Module = field(repr=False, compare=False)


def read(path: str | Path, *, warn: bool = False) -> SourceFile:
    """Read and parse a file. Cost: some 10 ms per thousand lines.

    With ``warn``, what Python's parser warns of (an invalid escape in a string) is warned of, as when it is imported.
    Raises: OSError; SyntaxError as Python would, with line and column, also for bytes that do not fit the declared
    encoding; RecursionError or MemoryError for an expression too deep for Python's ``ast``.
    """
    where = Path(path).absolute()
    return parse(where.read_bytes(), str(where), warn=warn)


def parse(data: bytes, path: str, *, warn: bool = False) -> SourceFile:
    """``read`` for bytes that are at hand: the same result, the same errors.

    >>> parse(b"# coding: latin-1\\r\\nname = '\\xe9'\\r\\n", "/tmp/train.py").text
    "# coding: latin-1\\nname = 'é'\\n"
    """
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore")
        try:
            # From bytes, so that cookies, marks and their faults are Python's own business.
            tree = cast(ast.Module, compile(data, path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True))
        except ValueError as error:  # null bytes are no SyntaxError before 3.12
            raise SyntaxError(str(error), (path, 1, 0, "")) from None
    try:
        text = importlib.util.decode_source(data)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"(unicode error) {error}", (path, 1, 0, "")) from None
    return SourceFile(path, text, tree)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node stands: lines and columns from 1, columns in characters, ``end_column`` after the last one."""

    line: int
    column: int
    end_line: int
    end_column: int


class Columns:
    """Python's own positions count UTF-8 bytes; this counts characters.

    >>> text = "é = ü[0]"
    >>> Columns(text).span(ast.parse(text).body[0].value)
    Span(line=1, column=5, end_line=1, end_column=9)
    """

    def __init__(self, text: str) -> None:
        # Not splitlines: that also breaks at form feeds and at U+2028, where Python's lines go on.
        self.lines = text.split("\n")

    def span(self, node: ast.AST) -> Span:
        """The span of an expression or a statement."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]  # expressions, statements have them
        end_line, end_column = node.end_lineno or line, node.end_col_offset or column  # type: ignore[attr-defined]
        return Span(line, self._characters(line, column) + 1, end_line, self._characters(end_line, end_column) + 1)

    def _characters(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode("utf-8")[:offset].decode("utf-8", "replace"))
