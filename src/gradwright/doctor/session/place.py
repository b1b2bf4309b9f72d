"""Where something stands in the user's source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A stretch of source text. Lines and columns count from 1; ``end_column`` is the column after the last character.

    ``path`` is relative to the script's working directory where the file lies below it, absolute otherwise.
    ``end_line == 0`` means that only the line is known.
    """

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"
