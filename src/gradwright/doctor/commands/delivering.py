"""A report in the form that was asked for, to where it was asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradwright.doctor.commands.scripts import color, width
from gradwright.doctor.render import FORMATS  # loads no renderer, and none of a report's data
from gradwright.errors import GradwrightError

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Report

C = TypeVar("C", bound=Callable[..., Any])

PAGE = Path(".gradwright/report.html")  # where a page goes that nobody wants to see as text
_WIDTH_OF_FILES = 100


def report_options(command: C) -> C:
    """In which form, and whereto."""
    for option in (
        click.option(
            "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file."
        ),
        click.option("--format", "form", type=click.Choice(tuple(FORMATS)), help="Form of the report.  [terminal]"),
    ):
        command = option(command)
    return command


def deliver(report: Report, form: str, output: Path | None) -> None:
    """Print the report or write it to a file, whole or not at all. A page is for a browser: with no file named, a
    terminal is told where it is. Raises: GradwrightError, if it can't be written."""
    from gradwright.doctor.render import render

    if output is None and not (form == "html" and sys.stdout.isatty()):
        click.echo(render(report, form, width=width(), color=color(), pages=_page_of), nl=False, color=True)
        return
    from gradwright.doctor.session.storing import store

    to = output or PAGE
    text = render(report, form, width=_WIDTH_OF_FILES, color=False, pages=_page_of)
    try:
        store(text.encode("utf-8", "replace"), to)
    except OSError as error:
        raise GradwrightError(f"the report can't be written to {to}: {error.strerror or error}") from None
    if output is None:
        click.echo(f"the page is in {to} (--output FILE puts it elsewhere): open it in a browser")


def _page_of(code: str) -> str:
    """A rule's page, for the forms that carry it: the rules are loaded when the first is asked for."""
    from gradwright.doctor.explain import page_of

    return page_of(code)
