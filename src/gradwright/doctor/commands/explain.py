"""``gradwright explain``."""

from __future__ import annotations

import sys

import click

from gradwright.doctor.commands.completing import code_or_words
from gradwright.doctor.commands.printing import say
from gradwright.doctor.commands.scripts import CLEAN, USAGE, exiting


@click.command(short_help="Explain a code or a pasted error message.")
@click.argument("text", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=code_or_words)
@click.pass_context
def explain(ctx: click.Context, text: tuple[str, ...]) -> None:
    """Explain a code (GW301) or a pasted error message. A single "-" reads it from standard input."""
    from gradwright.doctor.explain import explain as explanation

    words = sys.stdin.read() if text == ("-",) else " ".join(text)
    found = explanation(words)
    if found is None:
        click.echo(
            f"gradwright: nothing is known about {words[:200]!r}\n"
            "  do   give a code (gradwright explain GW301), or the last line of a traceback in quotes",
            err=True,
        )
        sys.exit(USAGE)
    page = found.rstrip("\n") + "\n"

    def show() -> int:
        say(page)
        return CLEAN

    exiting(ctx, show)
