"""A session becomes what a person or a machine reads: terminal text, a page, JSON. Reads only the session."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gradwright.errors import UsageError

if TYPE_CHECKING:  # the command line reads FORMATS, and --help need not wait for a report's data
    from gradwright.doctor.session.model import Report

__all__ = ["FORMATS", "Renderer", "render"]


class Renderer(Protocol):
    """One format of ``--format``. What is no terminal has no use for ``width`` and ``color``."""

    def __call__(self, report: Report, *, width: int, color: bool) -> str: ...


# Of each format the module whose ``render`` makes it: none is loaded before it is asked for.
FORMATS: dict[str, str] = {
    "terminal": "gradwright.doctor.render.terminal",
    "html": "gradwright.doctor.render.page",
    "json": "gradwright.doctor.render.session_file",
    "sarif": "gradwright.doctor.render.sarif",
    "github": "gradwright.doctor.render.github",
    "trace": "gradwright.doctor.render.trace",
}


# Those that carry the pages of rules, where somebody gives them.
WITH_PAGES = ("sarif",)


def render(
    report: Report, format: str, *, width: int = 100, color: bool = False, pages: Callable[[str], str] | None = None
) -> str:
    """The report in one of ``FORMATS``, ending in a newline. Raises ``UsageError``, naming the formats, for any other.

    ``pages`` gives a rule's docstring by its code: this room knows no rules.

    >>> from gradwright.doctor.session.model import Report
    >>> print(render(Report(), "terminal"), end="")
    no custom Functions
    <BLANKLINE>
    nothing wrong was found
    """
    if format not in FORMATS:
        *others, last = FORMATS
        raise UsageError(f"no format {format!r}; there are {', '.join(others)} and {last}")
    renderer: Renderer = import_module(FORMATS[format]).render
    more: dict[str, Any] = {"pages": pages} if pages is not None and format in WITH_PAGES else {}
    return renderer(report, width=width, color=color, **more)
