"""``gradwright report``."""

from __future__ import annotations

from pathlib import Path

import click

from gradwright.doctor.commands.apart import stays_apart
from gradwright.doctor.commands.completing import session_files
from gradwright.doctor.commands.delivering import deliver, place, report_options
from gradwright.doctor.commands.kept import SESSION, last, read
from gradwright.doctor.commands.scripts import exit_code, exiting, selection_options


@click.command(short_help="Show a session again, in any form.")
@click.argument("session", type=SESSION, required=False, shell_complete=session_files)
@report_options
@selection_options
@click.option("--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@click.pass_context
def report(
    ctx: click.Context, session: Path | None, form: str | None, output: Path | None, select: str | None,
    ignore: str | None, exit_zero: bool,
) -> None:  # fmt: skip
    """Show a session again, in any form; nothing is run.

    SESSION is the file that `gradwright diagnose` wrote: .gradwright/last.json, where none is named. Exits 1 if there
    are findings in it.
    """

    def show() -> int:
        kept = session or last()
        stays_apart({"the session that is shown": kept, "--output": place(form or "terminal", output)})
        shown = read(kept, select, ignore)
        deliver(shown, form or "terminal", output)
        return exit_code(shown, exit_zero=exit_zero)

    exiting(ctx, show)
