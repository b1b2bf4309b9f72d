"""What a command prints: to standard output, whole, or it is said why that could not be."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys

import click

from gradwright.errors import GradwrightError


def say(text: str) -> None:
    """Print ``text`` as it is, and hand it over at once.

    Raises: GradwrightError, where standard output is closed or takes no more (a full disk). That nobody reads any
    longer (``| head``) is no fault, and click's business.
    """
    if sys.stdout is None:
        raise GradwrightError("nothing can be printed: standard output is closed")
    try:
        click.echo(text, nl=False, color=True)
        sys.stdout.flush()
    except OSError as error:
        raise unprinted(error) from None


def say_bytes(data: bytes) -> None:
    """The same for what has to arrive byte by byte."""
    say("")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as error:
        raise unprinted(error) from None


def unprinted(error: OSError) -> Exception:
    """What to raise in place of the error; what still waits to be written is dropped, or Python would try once more."""
    if error.errno == errno.EPIPE:
        return error
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return GradwrightError(f"standard output can't be written: {error.strerror or error}")


def open_what_is_closed() -> None:
    """A process started without standard streams gives their numbers to the first files that it opens, and what the
    script prints would go there."""
    while True:
        opened = os.open(os.devnull, os.O_RDWR)
        if opened > 2:
            os.close(opened)
            return


def width() -> int:
    """Cells of the terminal; 100 elsewhere."""
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns)) if on_terminal() else 100


def color() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or on_terminal()


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
