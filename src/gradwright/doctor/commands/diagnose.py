"""``gradwright diagnose``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradwright.doctor.commands.apart import may_become_session, stays_apart
from gradwright.doctor.commands.delivering import deliver, not_empty, place, report_options
from gradwright.doctor.commands.kept import last
from gradwright.doctor.commands.scripts import (
    CLEAN,
    FAILED,
    ScriptCommand,
    asked,
    exit_code,
    exiting,
    script_options,
)

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Report


@click.command(
    cls=ScriptCommand, options_metavar="[OPTIONS]", short_help="Run a script and judge every gradient in it."
)
@script_options
@report_options
@click.option(
    "--session", type=click.Path(dir_okay=False, path_type=Path), callback=not_empty,
    help="Keep the session in this file.  [.gradwright/last.json]",
)  # fmt: skip
@click.option("--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@click.pass_context
def diagnose(ctx: click.Context, /, script: tuple[str, ...], module: bool, exit_zero: bool, **given: Any) -> None:
    """Run SCRIPT, unedited and for real, and judge every hand-made gradient in it.

    Everything that the script does (files it writes, jobs it starts) it does. Everything after SCRIPT is the script's.

    Under torchrun (`torchrun --nproc-per-node 2 -m gradwright diagnose train.py`) each rank is diagnosed and rank 0
    tells what all have found; with --exit-zero, torchrun does not take findings for a failed worker.
    """
    exiting(ctx, lambda: _diagnose(ctx, script, module, exit_zero, given))


def _diagnose(ctx: click.Context, script: tuple[str, ...], module: bool, exit_zero: bool, given: dict[str, Any]) -> int:
    chosen, options, program = asked(ctx, script, module, given)
    output = place(chosen.form, chosen.output)
    stays_apart({"the script": Path(program.path), "the session": chosen.session, "the report": output})
    if chosen.session != Path(".gradwright/last.json"):
        may_become_session(chosen.session)
    from gradwright.doctor.commands.running import run_and_keep

    # The report and the script's own prints never mix: with the report on standard output, the script's prints go
    # to standard error; with --output, they stay where they belong.
    script_stdout = None if chosen.output and output else sys.stderr.fileno()
    done = run_and_keep(options, chosen.session, script_stdout=script_stdout)
    if done is None:
        return CLEAN  # one rank of several: another tells what all have found
    deliver(done.report, chosen.form, chosen.output)
    if done.failure is not None:
        return FAILED
    code = exit_code(done.report, exit_zero=exit_zero)
    click.echo(f"gradwright: {further(done.report, done.kept)}", err=True)
    return code


def further(report: Report, kept: Path | None) -> str:
    """Where the session is, and what else can be had of it."""
    from gradwright.doctor.render.remedies import command_line, typed

    path = kept or last()
    usual = path == last()
    file = command_line([str(path)])
    words = f"the session is in {file}: gradwright report{'' if usual else ' ' + file} --format html makes a page of it"
    if not usual and any(finding.fix is not None for finding in report.findings):
        words += f", gradwright fix --session {file} {command_line(typed(report))} shows the fixes"
    return words
