"""The journal: what is learnt, one JSON line each, as it is learnt: a killed patient loses nothing it knew.

Every line is ``{"part": <field of Report>, "data": ...}``; parts that are lists are keyed by ``id`` (a later line
replaces an earlier one with the same id), the others are replaced field by field. Folding the journal gives the report.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gradwright.doctor.session.codec import decode, encode
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import Environment, Finding, NotExamined, Report, Script, Source, Specimen, Subject
from gradwright.errors import SessionError

_PARTS: dict[type, str] = {
    Source: "sources",
    Subject: "subjects",
    Specimen: "specimens",
    Finding: "findings",
    NotExamined: "not_examined",
    Environment: "environment",
    Script: "script",
}
_PROGRESS = "progress"


def _key(part: str, data: dict[str, Any]) -> str:
    if part in ("findings", "suppressed"):
        at = data["location"]
        return f"{data['code']} {data['subject']} {at['path']}:{at['line']}:{at['column']} {data['message']}"
    if part == "not_examined":
        return str(data["what"])
    return str(data["path"] if part == "sources" else data["id"])


class Journal:
    """Appends to one file from any thread of one process; a forked child of that process writes nothing.

    >>> import tempfile
    >>> with Journal(Path(tempfile.mkdtemp()) / "journal.jsonl") as journal:
    ...     journal.add(NotExamined("loops in data.py", "generated code"))
    >>> fold(journal.path).not_examined[0].why
    'generated code'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = os.getpid()
        self._lock = threading.RLock()  # a signal handler may write while its own thread is writing
        self._stream = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._pending = ""
        self._last: dict[str, str] = {}

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    @property
    def owner(self) -> int:
        """The process whose journal this is."""
        return self._owner

    def add(self, *items: Source | Subject | Specimen | Fact | Finding | NotExamined | Environment) -> None:
        for item in items:
            part = "facts" if isinstance(item, Fact) else _PARTS[type(item)]
            self._write(part, encode(item))

    def add_suppressed(self, finding: Finding) -> None:
        self._write("suppressed", encode(finding))

    def script(self, **fields: Any) -> None:
        """Update fields of the session's ``script``."""
        self._write("script", {name: encode(value) for name, value in fields.items()})

    def progress(self, stage: str, detail: str = "", done: int = 0, total: int = 0) -> None:
        """A sign of life for whoever waits; not part of the session."""
        self._write(_PROGRESS, {"stage": stage, "detail": detail, "done": done, "total": total})

    def _write(self, part: str, data: dict[str, Any]) -> None:
        if os.getpid() != self._owner:
            return
        line = json.dumps({"part": part, "data": data}, ensure_ascii=True, allow_nan=False)
        key = part + " " + str(data.get("id", ""))
        with self._lock:
            if data.get("id") and self._last.get(key) == line:
                return
            self._last[key] = line
            self._pending += line + "\n"
            self._write_pending()

    def _write_pending(self) -> None:
        """A full disk must not become the script's trouble: what can't be written now is tried again with the next."""
        try:
            while self._pending:
                written = os.write(self._stream.fileno(), self._pending.encode())
                self._pending = self._pending[written:]
        except OSError:
            pass


def read_lines(path: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The whole lines from byte ``offset`` on, and the offset after them. A line cut off at the end is left."""
    with open(path, "rb") as stream:
        stream.seek(offset)
        block = stream.read()
    whole = block[: block.rfind(b"\n") + 1]
    lines = []
    for raw in whole.splitlines():
        try:
            lines.append(json.loads(raw))
        except ValueError:
            continue  # a disk that filled up cuts a line in the middle; the lines after it are whole again
    return lines, offset + len(whole)


def fold(path: Path) -> Report:
    """The report that a journal adds up to, however far it got."""
    keyed: dict[str, dict[str, Any]] = {}
    fields: dict[str, dict[str, Any]] = {"environment": {}, "script": {}}
    for line in read_lines(path)[0]:
        part, data = line.get("part"), line.get("data")
        if part == _PROGRESS or not isinstance(data, dict):
            continue
        if part in fields:
            fields[part].update(data)
        elif isinstance(part, str):
            keyed.setdefault(part, {})[_key(part, data)] = data
    hints = get_type_hints(Report)
    values: dict[str, Any] = {name: decode(hints[name], data) for name, data in fields.items()}
    for part, items in keyed.items():
        if part not in hints:
            raise SessionError(f"{path}: unknown part {part!r}")
        item_kind = get_args(hints[part])[0]
        values[part] = tuple(decode(item_kind, data) for data in items.values())
    report = Report(**values)
    return dataclasses.replace(report, findings=tuple(sorted(report.findings, key=_reading_order)))


def _reading_order(finding: Finding) -> int:
    return {"error": 0, "warning": 1, "info": 2}[finding.severity]
