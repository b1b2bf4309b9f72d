"""docs/reference/command_line.md: every command and option, from what click knows of them."""

from __future__ import annotations

import re

import click

NOTICE = "<!-- Made by `python tools/generate.py` from the commands' own help: edit that. -->"


def command_line_page() -> str:
    """The page: a section for each command, its words as `--help` prints them, exit codes."""
    from gradwright.doctor.cli import main

    parts = [
        NOTICE,
        "# Command line",
        "The doctor's options stand before the script; everything behind it is the script's. "
        "`gradwright COMMAND --help` prints the same.",
        "| exit code | |\n|---|---|\n"
        "| 0 | clean (information alone is clean), nothing left to fix, nothing worse |\n"
        "| 1 | findings, fixes that are not made, something worse |\n"
        "| 2 | wrong usage, a session that can't be read |\n"
        "| 3 | the doctor itself failed, was interrupted before it saw a gradient, could not watch custom Functions or "
        "gradient calls, or can't write the report |",
    ]
    for name, command in main.commands.items():
        parts.append(_section(name, command, click.Context(main, info_name="gradwright")))
    return "\n\n".join(parts) + "\n"


def _section(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    said = [_paragraph(part) for part in re.split(r"\n\s*\n", (command.help or "").strip())]
    rows = ["| option | |", "|---|---|"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record:
            rows.append(f"| `{_cell(record[0])}` | {_cell(_literal(record[1]))} |")
    return "\n\n".join([f"## gradwright {name}", f"`gradwright {name} {usage}`", *said, "\n".join(rows)])


def _paragraph(text: str) -> str:
    if text.startswith("\b"):
        return "```text\n" + "\n".join(line.strip() for line in text.strip("\b\n").split("\n")) + "\n```"
    return _literal(" ".join(text.split()))


def _literal(text: str) -> str:
    """What Markdown would read as a tag or a link stays text."""
    return text.replace("<", "&lt;").replace("[", "\\[").replace("]", "\\]")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
