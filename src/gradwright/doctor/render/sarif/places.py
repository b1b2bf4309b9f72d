"""Files and stretches of text as SARIF names them: URIs below the repository, columns in UTF-16 code units."""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from types import ModuleType
from typing import Any
from urllib.parse import quote

from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location

Json = dict[str, Any]

ROOT = "SRCROOT"
_MOST_LINES = 40  # of a snippet: a whole class is no longer one
_MOST_CHARACTERS = 4_000
_AROUND = 2
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Files:
    """Every file that a session names, by its URI: relative to the repository's root, absolute if it lies elsewhere.

    The root is what code hosts take relative URIs from: the nearest folder with a ``.git`` around the session's working
    directory, looked up where that is on this machine; the working directory itself, if there is none.
    What is no file (``<string>``, code made while the script ran) has no URI.
    """

    def __init__(self, report: Report) -> None:
        self.cwd = report.environment.cwd
        self._windows = _DRIVE.match(self.cwd) is not None
        self._root = _repository(self.cwd) or self.cwd
        self._texts = {source.path: lines_of(source.text) for source in report.sources}
        findings = (*report.findings, *report.suppressed)
        named = [source.path for source in report.sources] + [finding.location.path for finding in findings]
        self._uris = {path: uri for path in named if (uri := self._uri(path)) is not None}
        self._order = {uri: index for index, uri in enumerate(sorted(set(self._uris.values())))}
        self._sources = {self._uris[source.path]: source for source in report.sources if source.path in self._uris}

    def lines(self, path: str) -> list[str] | None:
        """The lines of a file that the session holds, without their ends."""
        return self._texts.get(path)

    def relative(self, path: str) -> str:
        """The URI of a file below the root; "" of any other."""
        uri = self._uri(path)
        return "" if uri is None or uri.startswith("file:") else uri

    def below_cwd(self, path: str) -> str:
        """The file as it is named below the working directory; "" of any other."""
        full, base = self._full(path), self._folder(self.cwd)
        if self._uri(path) is None or not full.startswith(base) or (not base and self._style.isabs(full)):
            return ""
        return full[len(base) :].replace(self._style.sep, "/")

    def working_directory(self) -> Json:
        """SARIF's ``artifactLocation`` of it."""
        return {"uri": self._absolute(self.cwd).rstrip("/") + "/"}

    def location(self, path: str) -> Json | None:
        """SARIF's ``artifactLocation``."""
        uri = self._uri(path)
        if uri is None:
            return None
        made = {"uri": uri, **({"uriBaseId": ROOT} if self.cwd and not uri.startswith("file:") else {})}
        return {**made, "index": self._order[uri]} if uri in self._order else made

    def bases(self) -> Json:
        """SARIF's ``originalUriBaseIds``, and what is said of them. Empty if the session does not know where it was."""
        return {ROOT: {"uri": self._absolute(self._root).rstrip("/") + "/"}} if self.cwd else {}

    def artifacts(self) -> list[Json]:
        made = []
        for uri in self._order:
            based = {"uriBaseId": ROOT} if self.cwd and not uri.startswith("file:") else {}
            artifact: Json = {"location": {"uri": uri, **based, "index": self._order[uri]}, "sourceLanguage": "python"}
            source = self._sources.get(uri)
            if source is not None and _SHA256.fullmatch(source.sha256):
                artifact["hashes"] = {"sha-256": source.sha256}
            made.append(artifact)
        return made

    def _uri(self, path: str) -> str | None:
        if not path or path.startswith("<"):
            return None
        full, base = self._full(path), self._folder(self._root)
        if base and full.startswith(base) and full != base:
            return _quoted(full[len(base) :], self._windows)
        return self._absolute(full) if self._style.isabs(full) else _quoted(full, self._windows)

    @property
    def _style(self) -> ModuleType:
        return ntpath if self._windows else posixpath

    def _full(self, path: str) -> str:
        full: str = self._style.normpath(self._style.join(self.cwd, path))
        return full

    def _folder(self, path: str) -> str:
        """With the separator at its end; "" where it is not known."""
        return f"{self._style.normpath(path).rstrip(self._style.sep)}{self._style.sep}" if path else ""

    def _absolute(self, path: str) -> str:
        if self._windows and _DRIVE.match(path):
            return f"file:///{path[:2]}{_quoted(path[2:], True)}"
        return "file:///" + _quoted(path.lstrip("/"), self._windows)


def _repository(cwd: str) -> str:
    """The nearest folder with a ``.git`` in it (of a worktree it is a file), from ``cwd`` upwards; "" if there is none,
    or no such ``cwd`` on this machine."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):  # noqa: PTH112, PTH117 - pathlib's raise where one may not look
        return ""
    here = os.path.normpath(cwd)
    while not os.path.exists(os.path.join(here, ".git")):  # noqa: PTH110, PTH118 - the same
        here, inner = os.path.dirname(here), here  # noqa: PTH120 - the same
        if here == inner:
            return ""
    return here


def _quoted(path: str, windows: bool) -> str:
    """A path as a URI's: every byte that is none of a URI's own characters is written as ``%XX``."""
    path = path.replace("\\", "/") if windows else path
    try:
        data = path.encode("utf-8", "surrogateescape")  # a name that is no UTF-8 is had back byte for byte
    except UnicodeEncodeError:
        data = path.encode("utf-8", "surrogatepass")
    return quote(data, safe="/")


def lines_of(text: str) -> list[str]:
    """Without their ends. Not ``splitlines``: that also breaks at form feeds and at U+2028, where Python does not."""
    return re.split(r"\r\n|\r|\n", text)


def units(text: str) -> int:
    """The length of ``text`` in UTF-16 code units, in which every known reader of SARIF counts columns.

    >>> units("x = 'é'"), units("x = '🙂'")
    (7, 8)
    """
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def region(at: Location, lines: list[str] | None) -> Json | None:
    """SARIF's ``region`` with its text; ``None`` if not even the line is known.

    Columns are left out where they are not known, do not fit the text, or there is no text to count them in.
    """
    if at.line < 1:
        return None
    made: Json = {"startLine": at.line}
    if at.end_line < at.line:
        return {**made, **_snippet(lines, at.line, at.line)}
    if lines is None or not _fits(at, lines):
        return made if at.end_line == at.line else {**made, "endLine": at.end_line}
    first, last = lines[at.line - 1], lines[at.end_line - 1]
    made["startColumn"] = units(first[: at.column - 1]) + 1
    made["endLine"] = at.end_line
    made["endColumn"] = units(last[: at.end_column - 1]) + 1
    text = marked(at, lines)
    if at.end_line - at.line < _MOST_LINES and len(text) <= _MOST_CHARACTERS:
        made["snippet"] = {"text": text}
    return made


def around(at: Location, lines: list[str] | None) -> Json | None:
    """SARIF's ``contextRegion``: the lines of a place and those beside it. ``None`` where they say nothing more."""
    last = max(at.line, at.end_line)
    if lines is None or not 1 <= at.line <= last <= len(lines):
        return None
    count = len(lines) - (len(lines) > 1 and not lines[-1])  # what follows the last line end is no line
    start, end = max(1, at.line - _AROUND), min(max(count, last), last + _AROUND)
    snippet = _snippet(lines, start, end)
    return {"startLine": start, "endLine": end, **snippet} if snippet and end - start > last - at.line else None


def marked(at: Location, lines: list[str] | None) -> str:
    """The text of a place, the whole line where only that is known; "" where there is no text."""
    if lines is None or not 1 <= at.line <= len(lines):
        return ""
    if at.end_line < at.line or not _fits(at, lines):
        return lines[at.line - 1]
    if at.end_line == at.line:
        return lines[at.line - 1][at.column - 1 : at.end_column - 1]
    inner = lines[at.line : at.end_line - 1]
    return "\n".join([lines[at.line - 1][at.column - 1 :], *inner, lines[at.end_line - 1][: at.end_column - 1]])


def _fits(at: Location, lines: list[str]) -> bool:
    """Whether there is such a stretch of text, and something in it."""
    if not 1 <= at.line <= at.end_line <= len(lines) or at.column < 1 or at.end_column < 1:
        return False
    if (at.end_line, at.end_column) <= (at.line, at.column):
        return False
    return at.column <= len(lines[at.line - 1]) + 1 and at.end_column <= len(lines[at.end_line - 1]) + 1


def _snippet(lines: list[str] | None, first: int, last: int) -> Json:
    if lines is None or not 1 <= first <= last <= len(lines) or last - first >= _MOST_LINES + 2 * _AROUND:
        return {}
    text = "\n".join(lines[first - 1 : last])
    return {"snippet": {"text": text}} if text and len(text) <= _MOST_CHARACTERS else {}
