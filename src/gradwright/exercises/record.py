"""What is remembered of the exercises in a folder: which text passed, how many hints were shown. No torch.

Nothing hangs on it: a file that is lost, cut off or made by somebody else counts as empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradwright.exercises.catalog import Exercise

KEPT = Path(".gradwright/exercises.json")


@dataclass(frozen=True, slots=True)
class Remembered:
    """``file``: where the learner's was begun, or has passed. ``passed``: the digest of that text, "" if none has."""

    file: str = ""
    passed: str = ""
    hints: int = 0


@dataclass
class Record:
    """The exercises of the working directory, by number."""

    known: dict[int, Remembered] = field(default_factory=dict)

    @staticmethod
    def read() -> Record:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            data = json.loads(KEPT.read_text(encoding="utf-8"))
            return Record({int(number): _remembered(kept) for number, kept in data["exercises"].items()})
        return Record()

    def of(self, exercise: Exercise) -> Remembered:
        return self.known.get(exercise.number, Remembered())

    def note(self, exercise: Exercise, **changed: Any) -> None:
        """Remember this too, if it can be written."""
        self.known[exercise.number] = replace(self.of(exercise), **changed)
        text = json.dumps(
            {
                "exercises": {
                    str(number): {"file": kept.file, "passed": kept.passed, "hints": kept.hints}
                    for number, kept in sorted(self.known.items())
                }
            },
            indent=1,
        )
        part = KEPT.with_name(f".{KEPT.name}.{secrets.token_hex(4)}.part")
        with contextlib.suppress(OSError):
            KEPT.parent.mkdir(exist_ok=True)
            try:
                part.write_text(text + "\n", encoding="utf-8")
                part.replace(KEPT)
            finally:
                part.unlink(missing_ok=True)

    def state(self, exercise: Exercise) -> str:
        """``not begun``, ``begun``, ``passed``, or ``changed`` since it passed."""
        kept = self.of(exercise)
        path = Path(kept.file or exercise.file)
        try:
            if not path.is_file():  # a pipe would be waited for
                return "not begun"
            now = digest(path.read_bytes())
        except (OSError, ValueError):
            return "not begun"
        if not kept.passed:
            return "begun"
        return "passed" if now == kept.passed else "changed"


def digest(text: bytes) -> str:
    """
    >>> digest(b"") == digest(b""), digest(b"x = 1") == digest(b"x = 2")
    (True, False)
    """
    return hashlib.sha256(text).hexdigest()


def _remembered(kept: Any) -> Remembered:
    return Remembered(str(kept["file"]), str(kept["passed"]), int(kept["hints"]))
