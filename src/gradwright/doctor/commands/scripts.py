"""What commands that take a script have in common: whose argument is whose, options, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradwright.doctor.commands.completing import any_file, codes, script_files
from gradwright.errors import GradwrightError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gradwright.doctor.launch import Program
    from gradwright.doctor.options import Options
    from gradwright.doctor.session.model import Report
    from gradwright.doctor.settings import Settings

C = TypeVar("C", bound=Callable[..., Any])

CLEAN, FINDINGS, USAGE, FAILED = 0, 1, 2, 3


class ScriptCommand(click.Command):
    """Options before the script are ours; the script, and everything after it, are the script's own.

    ``-m NAME`` ends our options too, as it does for ``python``; so does ``--``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not parameter.is_flag
            for name in parameter.opts
        }
        ours, rest = 0, args
        while ours < len(args):
            word = args[ours]
            if word == "-m":
                ctx.meta["module"], rest = True, args[ours + 1 :]
                break
            if word == "--":
                ctx.meta["separated"], rest = True, args[ours + 1 :]
                break
            if not word.startswith("-") or word == "-":
                rest = args[ours:]
                break
            ours += 2 if word in takes_value else 1
        else:
            rest = []
        if ours > len(args):
            return super().parse_args(ctx, args)  # an option without its value
        return super().parse_args(ctx, [*args[:ours], "--", *rest])

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Where words are being completed, and the script is there, the options that follow are not ours."""
        every = super().get_params(ctx)
        if ctx.resilient_parsing and ctx.params.get("script"):
            return [parameter for parameter in every if parameter.name == "script"]
        return every

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return any_file(incomplete) if ctx.params.get("script") else super().shell_complete(ctx, incomplete)


def script_options(command: C) -> C:
    """The script, how long it may run, and which codes are meant."""
    for option in reversed(
        (
            click.argument(
                "script",
                metavar="SCRIPT [ARGUMENTS OF THE SCRIPT]...",
                nargs=-1,
                type=click.UNPROCESSED,
                shell_complete=script_files,
            ),
            click.option("-m", "module", is_flag=True, help="SCRIPT is a module's name, as in `python -m`."),
            click.option("--to-end", is_flag=True, help="Let the script run to its own end."),
            click.option(
                "--max-steps", type=click.IntRange(1), metavar="N", help="Stop it after N optimizer steps.  [200]"
            ),
            click.option(
                "--max-seconds",
                type=click.FloatRange(0, min_open=True),
                metavar="S",
                help="Stop it S seconds after its first gradient (10 S after its start, if there is none).  [60]",
            ),
            click.option(
                "--rerun",
                "rerun",
                flag_value="always",
                help="Where the loss becomes nan or inf, run SCRIPT once more, to find where that begins.  "
                "[if it ran less than 30 s]",
            ),
            click.option("--no-rerun", "rerun", flag_value="never", help="Never run it twice."),
            selection_options,
        )
    ):
        command = option(command)
    return command


def selection_options(command: C) -> C:
    """Which codes are meant."""
    command = click.option("--ignore", metavar="CODES", shell_complete=codes, help="Not these codes.")(command)
    meant = "Only these codes or their beginnings, as in GW1,GW301."
    return click.option("--select", metavar="CODES", shell_complete=codes, help=meant)(command)


def asked(
    ctx: click.Context, script: tuple[str, ...], module: bool, given: dict[str, Any]
) -> tuple[Settings, Options, Program]:
    """Settings and options for this script. Raises: UsageError, if there is no such script, or a table is wrong."""
    from gradwright.doctor import settings
    from gradwright.doctor.launch import find_program

    if not script:
        raise UsageError(f"which script? As in: gradwright {ctx.info_name} train.py --epochs 1")
    chosen = settings.load(Path.cwd()).overridden_by(given)
    options = chosen.options(script[0], module or bool(ctx.meta.get("module")), script[1:])
    program = find_program(options.target, module=options.module, arguments=options.arguments)
    return chosen, options, program


def exiting(ctx: click.Context, command: Callable[[], int]) -> None:
    """Leave with the command's exit code, or that of the error that it raised, told on standard error."""
    try:
        sys.exit(command())
    except UsageError as error:
        raise click.UsageError(str(error), ctx) from None
    except GradwrightError as error:
        click.echo(f"gradwright: {error}", err=True)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        click.echo("gradwright: interrupted", err=True)
        sys.exit(FAILED)


def exit_code(report: Report, *, exit_zero: bool) -> int:
    """What a report amounts to. One that was cut short before anything was seen is not clean."""
    if not report.ok:
        return CLEAN if exit_zero else FINDINGS
    if report.no_clean_bill:
        click.echo(f"gradwright: {report.no_clean_bill}: that is no clean bill", err=True)
        return FAILED
    return CLEAN
