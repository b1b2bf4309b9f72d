"""``gradwright rules``."""

from __future__ import annotations

import click

from gradwright.doctor.commands.completing import codes_and_categories
from gradwright.doctor.commands.printing import color, say, width
from gradwright.doctor.commands.scripts import CLEAN, exiting


@click.command(short_help="List what is looked for.")
@click.argument("which", metavar="[CATEGORY OR CODE]", required=False, shell_complete=codes_and_categories)
@click.option("--format", "form", type=click.Choice(("terminal", "json")), help="Form of the list.  [terminal]")
@click.pass_context
def rules(ctx: click.Context, which: str | None, form: str | None) -> None:
    """List what is looked for: all rules, or those of a category (speed) or a code's beginning (GW3)."""

    def show() -> int:
        from gradwright.doctor.rule_list import as_json, as_text, rules_of

        found = rules_of(which or "")
        text = as_json(found) if form == "json" else as_text(found, width=width(), color=color())
        say(text)
        return CLEAN

    exiting(ctx, show)
