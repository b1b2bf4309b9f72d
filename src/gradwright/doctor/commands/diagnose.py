"""``gradwright diagnose``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from gradwright.doctor.commands.delivering import deliver, report_options
from gradwright.doctor.commands.scripts import (
    CLEAN,
    FAILED,
    FINDINGS,
    ScriptCommand,
    asked,
    exiting,
    script_options,
)


@click.command(
    cls=ScriptCommand, options_metavar="[OPTIONS]", short_help="Run a script and judge every gradient in it."
)
@script_options
@report_options
@click.option(
    "--session", type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the session in this file.  [.gradwright/last.json]",
)  # fmt: skip
@click.option("--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@click.pass_context
def diagnose(ctx: click.Context, /, script: tuple[str, ...], module: bool, exit_zero: bool, **given: Any) -> None:
    """Run SCRIPT, unedited and for real, and judge every hand-made gradient in it.

    Everything that the script does (files it writes, jobs it starts) it does. Everything after SCRIPT is the script's.
    """
    exiting(ctx, lambda: _diagnose(ctx, script, module, exit_zero, given))


def _diagnose(ctx: click.Context, script: tuple[str, ...], module: bool, exit_zero: bool, given: dict[str, Any]) -> int:
    chosen, options, _ = asked(ctx, script, module, given)
    from gradwright.doctor.commands.running import run_and_keep

    # The report and the script's own prints never mix: with the report on standard output, the script's prints go
    # to standard error; with --output, they stay where they belong.
    script_stdout = None if chosen.output else sys.stderr.fileno()
    done = run_and_keep(options, chosen.session, script_stdout=script_stdout)
    if done is None:
        return CLEAN  # one rank of several: another tells what all have found
    deliver(done.report, chosen.form, chosen.output)
    if done.failure is not None:
        return FAILED
    return CLEAN if done.report.ok or exit_zero else FINDINGS
