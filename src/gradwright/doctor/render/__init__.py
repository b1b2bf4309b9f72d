"""A session becomes what a person or a machine reads: terminal text, a page, JSON. Reads only the session."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from gradwright.doctor.session.model import Report
from gradwright.errors import UsageError

__all__ = ["FORMATS", "Renderer", "render"]


class Renderer(Protocol):
    """One format of ``--format``. What is no terminal has no use for ``width`` and ``color``."""

    def __call__(self, report: Report, *, width: int, color: bool) -> str: ...


# Of each format the module whose ``render`` makes it: none is loaded before it is asked for.
FORMATS: dict[str, str] = {
    "terminal": "gradwright.doctor.render.terminal",
    "json": "gradwright.doctor.render.session_file",
}


def render(report: Report, format: str, *, width: int = 100, color: bool = False) -> str:
    """The report in one of ``FORMATS``, ending in a newline. Raises ``UsageError``, naming the formats, for any other.

    >>> print(render(Report(), "terminal"), end="")
    no custom Functions
    <BLANKLINE>
    nothing wrong was found
    """
    if format not in FORMATS:
        *others, last = FORMATS
        raise UsageError(f"no format {format!r}; there are {', '.join(others)} and {last}")
    renderer: Renderer = import_module(FORMATS[format]).render
    return renderer(report, width=width, color=color)
