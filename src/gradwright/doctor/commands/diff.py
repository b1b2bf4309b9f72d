"""``gradwright diff``."""

from __future__ import annotations

from pathlib import Path

import click

from gradwright.doctor.commands.completing import session_files
from gradwright.doctor.commands.kept import SESSION, last, read
from gradwright.doctor.commands.printing import color, say, width
from gradwright.doctor.commands.scripts import CLEAN, FINDINGS, exiting, selection_options
from gradwright.errors import UsageError


@click.command(short_help="Compare two sessions: what got better, what got worse.")
@click.argument("old", type=SESSION, shell_complete=session_files)
@click.argument("new", type=SESSION, required=False, shell_complete=session_files)
@click.option("--format", "form", type=click.Choice(("terminal", "json")), help="Form of the comparison.  [terminal]")
@click.option(
    "--factor", type=click.FloatRange(1, min_open=True), metavar="X",
    help="Tell of calls that take X times as long, or an X-th.  [1.5]",
)  # fmt: skip
@click.option("--gate-times", is_flag=True, help="Exit 1 for slower calls as well; times are noisy.")
@selection_options
@click.pass_context
def diff(
    ctx: click.Context, old: Path, new: Path | None, form: str | None, factor: float | None, gate_times: bool,
    select: str | None, ignore: str | None,
) -> None:  # fmt: skip
    """Compare two sessions: what got better, what got worse.

    OLD and NEW are session files; NEW is .gradwright/last.json, where it is not named. Exits 1 if something is worse:
    a new error or warning, a gradient's verdict, or something that was examined and no longer is. Whether something is
    slow enough to be a finding hangs on the clock, too: --ignore GW3,GW4 leaves that out. Exits 2 if they can't be
    compared: sessions of two scripts (other arguments are told), or a NEW one in which nothing was watched.
    """

    def show() -> int:
        sessions = read(old, select, ignore), read(new, select, ignore)
        from gradwright.doctor.comparing import FACTOR, compare, incomparable
        from gradwright.doctor.comparing.shown import as_json, as_text

        why = incomparable(*sessions)
        if why:
            raise UsageError(f"{old} and {new or last()} can't be compared: {why}")
        found = compare(*sessions, factor=factor or FACTOR, times_gate=gate_times)
        text = as_json(found) if form == "json" else as_text(found, width=width(), color=color())
        say(text)
        return FINDINGS if found.worse else CLEAN

    exiting(ctx, show)
