"""``gradwright fix``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradwright.doctor.commands.apart import may_become_session, stays_apart
from gradwright.doctor.commands.completing import session_files
from gradwright.doctor.commands.delivering import not_empty
from gradwright.doctor.commands.printing import color, say, say_bytes, width
from gradwright.doctor.commands.scripts import (
    CLEAN,
    FAILED,
    FINDINGS,
    ScriptCommand,
    asked,
    exiting,
    script_options,
)
from gradwright.errors import UsageError

if TYPE_CHECKING:
    from gradwright.doctor.mending.combining import Plan
    from gradwright.doctor.options import Options
    from gradwright.doctor.session.model import Finding, Report

# Options that people write after the script, as in `gradwright fix train.py --apply`.
_OFTEN_LAST = {"--apply": "apply", "--diff": "diff", "--unsafe": "unsafe", "--outside": "outside"}


@click.command(
    cls=ScriptCommand, options_metavar="[OPTIONS]", short_help="Show the verified fixes of a script, or make them."
)
@script_options
@click.option("--apply", is_flag=True, help="Change the files; the old ones are kept beside them as FILE.orig.")
@click.option("--diff", is_flag=True, help="Print one bare diff, for `patch -p0` or `git apply -p0`.")
@click.option("--unsafe", is_flag=True, help="Also fixes that do something else at some inputs (they say which).")
@click.option("--outside", is_flag=True, help="Also files that don't lie below the working directory.")
@click.option(
    "--session", type=click.Path(dir_okay=False, path_type=Path), shell_complete=session_files, callback=not_empty,
    help="Take the fixes from this session.  [.gradwright/last.json; made if there is none of the script as it is]",
)  # fmt: skip
@click.pass_context
def fix(ctx: click.Context, /, script: tuple[str, ...], module: bool, **given: Any) -> None:
    """Show the verified fixes of SCRIPT as diffs, or make them with --apply.

    They are those of the last session, if that is of this script with these arguments and no file was changed since;
    otherwise the script is diagnosed first, which runs it for real. Exits 1 while there are fixes that are not made.
    """
    exiting(ctx, lambda: _fix(ctx, script, module, given))


def _fix(ctx: click.Context, script: tuple[str, ...], module: bool, given: dict[str, Any]) -> int:
    from gradwright.doctor.ranks.identity import this_rank

    if this_rank(os.environ) is not None:
        raise UsageError(
            "several ranks can't mend the same files: run `diagnose` under torchrun, then `gradwright fix` by itself"
        )
    wanted = {name: given.pop(name) for name in _OFTEN_LAST.values()}
    named = given.get("session")
    if not ctx.meta.get("separated"):
        script = _without_ours(script, wanted)
    chosen, options, program = asked(ctx, script, module, given)
    here = Path.cwd()
    if named is None:  # one that is named is only read
        stays_apart({"the script": Path(program.path), "the session": chosen.session})
    report = _report(named, chosen.session, options, program.argv, here)
    if report is None:
        return FAILED
    from gradwright.doctor.mending.choosing import selected
    from gradwright.doctor.mending.combining import plan

    findings = selected(report, chosen.select, chosen.ignore)
    made = plan(findings, report, here=here, unsafe=wanted["unsafe"], outside=wanted["outside"])
    _show(made, findings, bare=wanted["diff"])
    from gradwright.doctor.mending.shown import summary
    from gradwright.doctor.render.remedies import command_line

    typed = command_line([*(["-m"] if options.module else []), options.target, *options.arguments])
    if wanted["apply"]:
        return _apply(made, findings, typed, bare=wanted["diff"])

    flags = "".join(f" {flag}" for flag, name in _OFTEN_LAST.items() if wanted[name] and name in ("unsafe", "outside"))
    flags += f" --session {command_line([str(named)])}" if named else ""
    _tell(summary(made, findings, flags=flags, script=typed), bare=wanted["diff"])
    return FINDINGS if made.offers else CLEAN


def _without_ours(script: tuple[str, ...], wanted: dict[str, bool]) -> tuple[str, ...]:
    """What stands after the script is the script's; but who writes ``fix train.py --apply`` means us.

    Raises: UsageError, where the script may have an option of that name itself.
    """
    last = len(script)
    while last > 1 and script[last - 1] in _OFTEN_LAST:
        last -= 1
    words = script[last:]
    if not words:
        return script
    path = Path(script[0])
    text = path.read_bytes() if path.is_file() else b""
    theirs = next((word for word in words if word.encode() in text), None)
    if theirs is not None:
        raise UsageError(
            f"{theirs} stands after the script, which knows such an option itself: is it gradwright's "
            f"(gradwright fix {theirs} {script[0]}) or the script's (gradwright fix -- {script[0]} {theirs})?"
        )
    click.echo(f"gradwright: {' '.join(words)} is taken as gradwright's own, not as the script's", err=True)
    wanted.update((_OFTEN_LAST[word], True) for word in words)
    return script[:last]


def _report(named: Path | None, kept: Path, options: Options, argv: tuple[str, ...], here: Path) -> Report | None:
    """The session that was named, or the last one, or that of a new run. ``None``: the doctor failed."""
    from gradwright.doctor.mending.sessions import last_session, named_session

    module = options.target if options.module else ""
    if named is not None:
        return named_session(named, argv, here, module=module)
    last = last_session(kept, argv, here, module=module)
    if not isinstance(last, str):
        return last
    from gradwright.doctor.commands.running import run_and_keep

    if kept != Path(".gradwright/last.json"):
        may_become_session(kept)
    click.echo(f"gradwright: {last}: diagnosing first", err=True)
    done = run_and_keep(options, kept, script_stdout=sys.stderr.fileno())
    if done is None or done.failure is not None:
        return None
    if done.report.ok and done.report.no_clean_bill:
        click.echo(f"gradwright: {done.report.no_clean_bill}: there may be fixes", err=True)
        return None
    return done.report


def _show(made: Plan, findings: list[Finding], *, bare: bool) -> None:
    from gradwright.doctor.mending.shown import bare_diff, shown

    if bare:
        say_bytes(bare_diff(made.files))
        left = [offer for offer in made.offers if offer.left]
        click.echo(shown(left, (), width=100, color=False), nl=False, err=True)
    else:
        say(shown(made.offers, findings, width=width(), color=color()))


def _tell(text: str, *, bare: bool) -> None:
    if bare:  # standard output is the diff's
        click.echo(text, nl=False, err=True)
    else:
        say(text)


def _apply(made: Plan, findings: list[Finding], script: str, *, bare: bool) -> int:
    from gradwright.doctor.mending.files import NotWritable
    from gradwright.doctor.mending.shown import outcome
    from gradwright.doctor.mending.writing import write

    try:
        written, refused = write(made.files)
    except NotWritable as error:
        click.echo(f"gradwright: no fix was made: {error}", err=True)
        return FINDINGS
    except KeyboardInterrupt:
        click.echo("gradwright: interrupted: no fix was made, every file is as it was", err=True)
        return FINDINGS
    _tell(outcome(made, findings, written, refused, script=script), bare=bare)
    return FINDINGS if refused or any(offer.left for offer in made.offers) else CLEAN
