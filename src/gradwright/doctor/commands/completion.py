"""``gradwright completion``."""

from __future__ import annotations

import click

from gradwright.doctor.commands.completing import VARIABLE
from gradwright.doctor.commands.printing import say
from gradwright.doctor.commands.scripts import CLEAN, exiting

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Completion for bash, zsh and fish.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that teaches a shell to complete gradwright's words.

    \b
    bash, in ~/.bashrc:  eval "$(gradwright completion bash)"
    zsh, in ~/.zshrc:    eval "$(gradwright completion zsh)"
    fish:  gradwright completion fish > ~/.config/fish/completions/gradwright.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # SHELLS are click's own
    source = kind(ctx.find_root().command, {}, "gradwright", VARIABLE).source()

    def show() -> int:
        say(source)
        return CLEAN

    exiting(ctx, show)
