"""What a tool has answered, a line of JSON each, by the version of the tool and the text of the script.

A run can be interrupted and taken up again; what is said is judged anew each time, and no script runs twice for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Scripts = dict[str, tuple[str, str]]  # by any name: file name and text
Asking = Callable[[Scripts], Iterator[tuple[str, dict[str, Any]]]]


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def version_of(*folders: Path) -> str:
    return digest(*(path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))))


class Kept:
    """Read when it starts, added to as it goes; ``fresh``: what was answered before is forgotten."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            path.unlink(missing_ok=True)
        self._lines: dict[tuple[str, str, str], dict[str, Any]] = {}
        if path.exists():
            for text in path.read_text().splitlines():
                try:
                    line = json.loads(text)
                except json.JSONDecodeError:  # it was interrupted while it wrote
                    continue
                self._lines[line["tool"], line["name"], line["version"]] = line["answer"]
        self._path = path

    def answers(self, tool: str, version: str, scripts: Scripts, ask: Asking) -> dict[str, dict[str, Any]]:
        """What ``tool`` says of each script; it is asked about those alone that it has not answered yet."""
        places = {name: (tool, name, digest(version, *script)) for name, script in scripts.items()}
        missing = {name: scripts[name] for name, place in places.items() if place not in self._lines}
        if missing:
            for name, answer in ask(missing):
                self._lines[places[name]] = answer
                line = {"tool": tool, "name": name, "version": places[name][2], "answer": answer}
                with self._path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        return {name: self._lines[place] for name, place in places.items()}
