"""The command line: its commands and their exit codes.

0 clean (information alone is clean), or nothing left to fix · 1 findings, or fixes that are not made · 2 wrong usage ·
3 the doctor itself failed.
"""

from __future__ import annotations

import io
import sys

import click

import gradwright
from gradwright.doctor.commands.diagnose import diagnose
from gradwright.doctor.commands.explain import explain
from gradwright.doctor.commands.fix import fix


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(gradwright.__version__, prog_name="gradwright")
def main() -> None:
    """Is every hand-made gradient right, why is its backward slow, and what mends it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 gets the report all the same


for command in (diagnose, explain, fix):
    main.add_command(command)

if __name__ == "__main__":
    main()
