"""A report in the form that was asked for, to where it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradwright.doctor.commands.apart import has_a_folder
from gradwright.doctor.commands.printing import color, on_terminal, say, width
from gradwright.doctor.render import FORMATS  # loads no renderer, and none of a report's data
from gradwright.errors import GradwrightError

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Report

C = TypeVar("C", bound=Callable[..., Any])

PAGE = Path(".gradwright/report.html")  # where a page goes that nobody wants to see as text
STDOUT = Path("-")  # as --output names it
_WIDTH_OF_FILES = 100


def report_options(command: C) -> C:
    """In which form, and whereto."""
    for option in (
        click.option(
            "--output",
            type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
            callback=not_empty,
            help="Write the report to this file (-: to standard output).",
        ),
        click.option("--format", "form", type=click.Choice(tuple(FORMATS)), help="Form of the report.  [terminal]"),
    ):
        command = option(command)
    return command


def not_empty(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """``--output "$FILE"`` with nothing in FILE names no file. (A path of "" is that of the directory.)"""
    if value is not None and not value.name and value == Path():
        raise click.BadParameter("no file is named", ctx, param)
    return value


def place(form: str, output: Path | None) -> Path | None:
    """Where the report goes: to a file, or to standard output. A page is for a browser, not for a terminal.

    Raises: UsageError, if the folder of a file that was asked for is not there.
    """
    if output == STDOUT:
        return None
    if output is None:
        return PAGE if form == "html" and on_terminal() else None
    has_a_folder(output)
    return output


def deliver(report: Report, form: str, output: Path | None) -> None:
    """Print the report or write it to a file, whole or not at all. A page is for a browser: with no file named, a
    terminal is told where it is. Raises: GradwrightError, if it can't be written."""
    from gradwright.doctor.render import render

    to = place(form, output)
    if to is None:
        say(render(report, form, width=width(), color=color(), pages=_page_of))
        return
    from gradwright.doctor.session.storing import store

    text = render(report, form, width=_WIDTH_OF_FILES, color=False, pages=_page_of)
    try:
        store(text.encode("utf-8", "replace"), to)
    except OSError as error:
        raise GradwrightError(f"the report can't be written to {to}: {error.strerror or error}") from None
    if output is None:
        say(f"the page is in {to} (--output FILE puts it elsewhere): open it in a browser\n")


def _page_of(code: str) -> str:
    """A rule's page, for the forms that carry it: the rules are loaded when the first is asked for."""
    from gradwright.doctor.explain import page_of

    return page_of(code)
