"""A session becomes what a person or a machine reads: terminal text, an HTML fragment, JSON. Reads only the session."""

from __future__ import annotations

from typing import Protocol

from gradwright.doctor.render import terminal
from gradwright.doctor.session import codec
from gradwright.doctor.session.model import Report
from gradwright.errors import UsageError

__all__ = ["FORMATS", "Renderer", "render"]


class Renderer(Protocol):
    """One format of ``--format``. What is no terminal has no use for ``width`` and ``color``."""

    def __call__(self, report: Report, *, width: int, color: bool) -> str: ...


def _json(report: Report, *, width: int, color: bool) -> str:
    return codec.to_json(report)


FORMATS: dict[str, Renderer] = {"terminal": terminal.render, "json": _json}


def render(report: Report, format: str, *, width: int = 100, color: bool = False) -> str:
    """The report in one of ``FORMATS``, ending in a newline. Raises ``UsageError``, naming the formats, for any other.

    >>> print(render(Report(), "terminal"), end="")
    no custom Functions
    <BLANKLINE>
    nothing wrong was found
    """
    if format not in FORMATS:
        raise UsageError(f"no format {format!r}; there are {' and '.join(FORMATS)}")
    return FORMATS[format](report, width=width, color=color)
