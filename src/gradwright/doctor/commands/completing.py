"""What a shell may offer to complete: codes, sessions, scripts. Click does the rest (``gradwright completion bash``).

A file name that needs quoting is left to the shell, which knows how to.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_GRADWRIGHT_COMPLETE"  # of the environment, by which the shell's function asks
_PLAIN = re.compile(r"[\w./+@%=-]*")
_MOST = 200


def codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Codes of rules; after a comma, the next one."""
    from click.shell_completion import CompletionItem

    from gradwright.doctor.rules import all_rules

    head, comma, start = incomplete.rpartition(",")
    given = set(head.upper().split(","))
    return [
        CompletionItem(head + comma + rule.rule.code, help=rule.rule.name)
        for rule in all_rules()
        if rule.rule.code.startswith(start.upper()) and rule.rule.code not in given
    ]


def code_or_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """A code, as the first word: after that it is a message that is being pasted."""
    return [] if ctx.params.get("text") else codes(ctx, param, incomplete)


def codes_and_categories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    from gradwright.doctor.rules.rule import CATEGORIES

    names: list[str] = [name for name in CATEGORIES.values() if name.startswith(incomplete.lower())]
    words = [CompletionItem(name) for name in names]
    return [*words, *codes(ctx, param, incomplete)] if incomplete else words


def session_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    return _files(incomplete, ".json", also=".gradwright/last.json")


def script_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The script; then what is the script's own, which is most often a file."""
    if ctx.params.get("script"):
        return any_file(incomplete)
    return [] if ctx.meta.get("module") else _files(incomplete, ".py")


def exercise_numbers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from click.shell_completion import CompletionItem

    from gradwright.exercises.catalog import all_exercises

    return [
        CompletionItem(str(one.number), help=one.title)
        for one in all_exercises()
        if str(one.number).startswith(incomplete)
    ]


def any_file(incomplete: str) -> list[CompletionItem[str]]:
    """The shell's own completion of file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _files(incomplete: str, suffix: str, also: str = "") -> list[CompletionItem[str]]:
    """Files with this ending that begin so; where there are none, whatever the shell offers (folders, too)."""
    from click.shell_completion import CompletionItem

    folder, start = os.path.split(incomplete)
    try:
        names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - what is typed stays as it is: ./, ../, //
    except (OSError, ValueError):
        names = []
    found = [
        os.path.join(folder, name)  # noqa: PTH118
        for name in names
        if name.endswith(suffix) and name.startswith(start) and (start or not name.startswith("."))
    ]
    if also.startswith(incomplete) and os.path.isfile(also):  # noqa: PTH113
        found.insert(0, also)
    if not found or len(found) > _MOST or not all(_PLAIN.fullmatch(name) for name in found):
        return any_file(incomplete)
    return [CompletionItem(name) for name in found]


def register() -> None:
    """Bash breaks words at ``=``, too: ``--format=ht`` comes as three."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        def get_completion_args(self) -> tuple[list[str], str]:
            words, incomplete = super().get_completion_args()
            return [word for word in words if word != "="], "" if incomplete == "=" else incomplete

    add_completion_class(Bash)
