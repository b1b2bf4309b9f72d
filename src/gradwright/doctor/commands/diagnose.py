"""``gradwright diagnose``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradwright.doctor.commands.scripts import (
    CLEAN,
    FAILED,
    FINDINGS,
    ScriptCommand,
    asked,
    color,
    exiting,
    script_options,
    width,
)
from gradwright.errors import GradwrightError

if TYPE_CHECKING:
    from gradwright.doctor.session.model import Report
    from gradwright.doctor.settings import Settings


@click.command(cls=ScriptCommand, options_metavar="[OPTIONS]")
@script_options
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), help="Form of the report.  [terminal]")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
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
    _write_report(done.report, chosen)
    if done.failure is not None:
        return FAILED
    return CLEAN if done.report.ok or exit_zero else FINDINGS


def _write_report(report: Report, chosen: Settings) -> None:
    from gradwright.doctor.render import render

    if chosen.output is not None:
        text = render(report, chosen.form, width=100, color=False)
        try:
            chosen.output.parent.mkdir(parents=True, exist_ok=True)
            part = chosen.output.with_name(chosen.output.name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(chosen.output)
        except OSError as error:
            raise GradwrightError(f"the report can't be written to {chosen.output}: {error}") from None
        return
    click.echo(render(report, chosen.form, width=width(), color=color()), nl=False, color=True)
