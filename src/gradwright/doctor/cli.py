"""The command line: its commands and their exit codes.

0 clean (information alone is clean), nothing left to fix, nothing worse, an exercise begun or solved · 1 findings,
fixes that are not made, something worse, an exercise not solved yet · 2 wrong usage, a session that can't be read ·
3 the doctor itself failed, or was interrupted before it saw a gradient, or could not watch custom Functions or gradient
calls, or what it has to say can't be written.
"""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from typing import Any

import click

import gradwright
from gradwright.doctor.commands import completing
from gradwright.doctor.commands.completion import completion
from gradwright.doctor.commands.diagnose import diagnose
from gradwright.doctor.commands.diff import diff
from gradwright.doctor.commands.exercise import exercise
from gradwright.doctor.commands.explain import explain
from gradwright.doctor.commands.fix import fix
from gradwright.doctor.commands.printing import open_what_is_closed, unprinted
from gradwright.doctor.commands.report import report
from gradwright.doctor.commands.rules import rules
from gradwright.doctor.commands.scripts import FAILED


class Commands(click.Group):
    """Commands in the order in which a newcomer needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def main(self, *args: Any, **extra: Any) -> Any:
        if completing.VARIABLE in os.environ:
            completing.register()
        open_what_is_closed()
        try:
            return super().main(*args, **extra)
        except OSError as error:  # of click's own words (--help): commands say what could not be done
            if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF):
                raise
            click.echo(f"gradwright: {unprinted(error)}", err=True)
            sys.exit(FAILED)


def print_versions(ctx: click.Context) -> None:
    """torch is loaded, and tried, in a process of its own: it may die there, and nothing else here needs it."""
    click.echo(f"gradwright {gradwright.__version__}")
    tried = subprocess.run(
        [sys.executable, "-m", "gradwright.ground.torch_versions.listing"], capture_output=True, text=True
    )
    *_, last = tried.stderr.strip().splitlines() or ["it says nothing"]
    click.echo(tried.stdout.rstrip() if tried.returncode == 0 else f"torch can't be imported: {last}")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: print_versions(ctx) if asked else None,
    help="Show the versions of Gradwright and torch, and what this torch lacks, and exit.",
)
def main() -> None:
    """Is every hand-made gradient right, why is its backward slow, and what mends it.

    Begin with: gradwright diagnose train.py
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets the report all the same


for command in (diagnose, fix, report, diff, explain, rules, exercise, completion):
    main.add_command(command)

if __name__ == "__main__":
    main()
