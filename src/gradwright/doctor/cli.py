"""The command line: arguments and exit codes.

0 clean (information alone is clean) · 1 findings · 2 wrong usage · 3 the doctor itself failed.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import gradwright
from gradwright.errors import GradwrightError, UsageError

if TYPE_CHECKING:
    from gradwright.doctor.options import Options
    from gradwright.doctor.session.model import Report

C = TypeVar("C", bound=Callable[..., Any])

CLEAN, FINDINGS, USAGE, FAILED = 0, 1, 2, 3


class ScriptCommand(click.Command):
    """Options before the script are ours; the script, and everything after it, are the script's own.

    ``-m NAME`` ends our options too, as it does for ``python``.
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
                rest = args[ours + 1 :]
                break
            if not word.startswith("-") or word == "-":
                rest = args[ours:]
                break
            ours += 2 if word in takes_value else 1
        else:
            rest = []
        return super().parse_args(ctx, [*args[:ours], "--", *rest])


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(gradwright.__version__, prog_name="gradwright")
def main() -> None:
    """Is every hand-made gradient right, why is its backward slow, and what mends it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets the report all the same


@main.command(cls=ScriptCommand, options_metavar="[OPTIONS]")
@click.argument("script", metavar="SCRIPT [ARGUMENTS OF THE SCRIPT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module's name, as in `python -m`.")
@click.option("--to-end", is_flag=True, help="Let the script run to its own end.")
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Stop it after N optimizer steps.  [200]")
@click.option(
    "--max-seconds", type=click.FloatRange(0, min_open=True), metavar="S",
    help="Stop it S seconds after its first gradient (10 S after its start, if there is none).  [60]",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(["terminal", "json"]), help="Form of the report.  [terminal]")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option(
    "--session", type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the session in this file.  [.gradwright/last.json]",
)  # fmt: skip
@click.option("--select", metavar="CODES", help="Only these codes or their beginnings, as in GW1,GW301.")
@click.option("--ignore", metavar="CODES", help="Not these codes.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@click.pass_context
def diagnose(ctx: click.Context, /, script: tuple[str, ...], module: bool, exit_zero: bool, **given: Any) -> None:
    """Run SCRIPT, unedited and for real, and judge every hand-made gradient in it.

    Everything that the script does (files it writes, jobs it starts) it does. Everything after SCRIPT is the script's.
    """
    from gradwright.doctor import settings

    if not script:
        raise click.UsageError("which script? As in: gradwright diagnose train.py --epochs 1", ctx)
    try:
        chosen = settings.load(Path.cwd()).overridden_by(given)
        options = chosen.options(script[0], module or bool(ctx.meta.get("module")), script[1:])
        _check_target(options)
        sys.exit(_diagnose(options, chosen, exit_zero))
    except UsageError as error:
        raise click.UsageError(str(error), ctx) from None
    except GradwrightError as error:
        click.echo(f"gradwright: {error}", err=True)
        sys.exit(FAILED)


def _check_target(options: Options) -> None:
    from gradwright.doctor.launch import find_program

    find_program(options.target, module=options.module, arguments=options.arguments)


def _diagnose(options: Options, chosen: Any, exit_zero: bool) -> int:
    from gradwright.doctor.conduct import conduct, save

    # The report and the script's own prints never mix: with the report on standard output, the script's prints go
    # to standard error; with --output, they stay where they belong.
    script_stdout = None if chosen.output else sys.stderr.fileno()
    done = conduct(options, script_stdout=script_stdout, progress=sys.stderr)
    _save_session(done.report, chosen.session, save)
    _write_report(done.report, chosen)
    if done.failure is not None:
        click.echo(f"gradwright: the doctor itself failed; please report this:\n{done.failure}", err=True)
        return FAILED
    return CLEAN if done.report.ok or exit_zero else FINDINGS


def _save_session(report: Report, path: Path, save: Callable[[Report, Path], None]) -> None:
    try:
        save(report, path)
    except OSError as error:
        import tempfile

        spare = Path(tempfile.gettempdir()) / f"gradwright-session-{os.getpid()}.json"
        save(report, spare)
        click.echo(f"gradwright: {path} can't be written ({error}); the session is in {spare}", err=True)


def _write_report(report: Report, chosen: Any) -> None:
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
    click.echo(render(report, chosen.form, width=_width(), color=_color()), nl=False, color=True)


def _width() -> int:
    import shutil

    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns)) if sys.stdout.isatty() else 100


def _color() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


@main.command()
@click.argument("text", nargs=-1, required=True, type=click.UNPROCESSED)
def explain(text: tuple[str, ...]) -> None:
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
    click.echo(found.rstrip("\n"))


if __name__ == "__main__":
    main()
