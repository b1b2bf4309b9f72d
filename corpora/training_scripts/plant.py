"""A fault to plant: a script, what changes in its text, which codes name the cause, which lines are right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CLEAN = Path(__file__).parent / "clean"

Edit = tuple[str, str]


@dataclass(frozen=True)
class Plant:
    """``edits``: each old text stands exactly once in what the edits before it left.

    ``codes`` name the cause, any of them; ``at`` are texts that stand once in the planted script: a finding is at the
    right line if it covers the line that one of them begins in. ``says``: a word of the cause that message or reason
    has to hold as well, where the code alone does not name it.
    """

    family: str
    script: str
    what: str
    edits: tuple[Edit, ...]
    codes: tuple[str, ...]
    at: tuple[str, ...]
    says: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.script}: {self.what}"

    def text(self) -> str:
        """The planted script. Raises ``ValueError`` where an edit does not apply exactly once."""
        text = clean_text(self.script)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: stands {text.count(old)} times: {old!r}")
            text = text.replace(old, new)
        return text

    def lines(self) -> frozenset[int]:
        """The right ones, from 1. Raises ``ValueError`` where a marker does not stand once."""
        text = self.text()
        for marker in self.at:
            if text.count(marker) != 1:
                raise ValueError(f"{self.name}: stands {text.count(marker)} times: {marker!r}")
        return frozenset(text[: text.index(marker)].count("\n") + 1 for marker in self.at)


def clean_text(script: str) -> str:
    return (CLEAN / f"{script}.py").read_text()


def clean_scripts() -> list[str]:
    return sorted(path.stem for path in CLEAN.glob("*.py"))
