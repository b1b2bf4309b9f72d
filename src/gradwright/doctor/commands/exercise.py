"""``gradwright exercise``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradwright.doctor.commands.completing import any_file, exercise_numbers
from gradwright.doctor.commands.printing import color, say
from gradwright.doctor.commands.scripts import CLEAN, FINDINGS, exiting
from gradwright.errors import UsageError

if TYPE_CHECKING:
    from gradwright.exercises.catalog import Exercise
    from gradwright.exercises.outcome import Outcome
    from gradwright.exercises.record import Record


@click.command(short_help="Learn to write gradients: exercises, graded.")
@click.argument("number", metavar="[NUMBER]", required=False, shell_complete=exercise_numbers)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    shell_complete=lambda ctx, param, incomplete: any_file(incomplete),
    help="Where your answer lies.  [exercise_05_huber.py, in this folder]",
)
@click.option("--hint", "show", flag_value="hint", help="Show the next hint.")
@click.option("--solution", "show", flag_value="solution", help="Show a solution.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    metavar="S",
    help="How long one call of your code may take.  [20]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Draw the inputs of an earlier grading again.")
@click.pass_context
def exercise(
    ctx: click.Context, number: str | None, file: Path | None, show: str | None, seconds: float, seed: int | None
) -> None:
    """List the exercises; begin one, or have your answer graded.

    The first call for a NUMBER writes a file to fill in and tells the task; each further one grades that file. It exits
    with 0 when the answer is right.
    """

    def do() -> int:
        if number is None:
            if file is not None or show is not None:
                raise UsageError("which exercise? As in: gradwright exercise 5 --hint")
            return _list()
        chosen = _chosen(number)
        if show == "hint":
            return _hint(chosen)
        if show == "solution":
            say(chosen.solution)
            return CLEAN
        return _begin_or_grade(chosen, file, seconds, seed)

    exiting(ctx, do)


def _chosen(number: str) -> Exercise:
    from gradwright.exercises.catalog import all_exercises, exercise_of

    found = exercise_of(int(number)) if number.isascii() and number.isdigit() and len(number) < 9 else None
    if found is None:
        there = ", ".join(f"{one.number} ({one.title})" for one in all_exercises())
        raise UsageError(f"there is no exercise {number!r}; there are {there}")
    return found


def _list() -> int:
    from gradwright.doctor.commands import exercise_told as told
    from gradwright.exercises.catalog import all_exercises
    from gradwright.exercises.record import Record

    record = Record.read()
    say(told.listed([(one, record.state(one)) for one in all_exercises()], color=color()))
    return CLEAN


def _hint(chosen: Exercise) -> int:
    from gradwright.doctor.commands import exercise_told as told
    from gradwright.exercises.record import Record

    record = Record.read()
    shown = min(max(record.of(chosen).hints, 0), len(chosen.hints) - 1)
    say(told.hint(chosen, shown))
    record.note(chosen, hints=shown + 1)
    return CLEAN


def _begin_or_grade(chosen: Exercise, file: Path | None, seconds: float, seed: int | None) -> int:
    from gradwright.doctor.commands import exercise_told as told
    from gradwright.exercises.files import begin
    from gradwright.exercises.record import Record

    record = Record.read()
    path = file if file is not None else Path(chosen.file)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {path}")
    if not path.exists():
        try:
            begin(path, chosen.stub)
        except FileExistsError:
            raise UsageError(f"{path} can't be begun: something of that name is there, and it stays") from None
        record.note(chosen, file=str(path), passed="")
        say(told.task(chosen, str(path)))
        return CLEAN
    return _grade(chosen, path, record, seconds, seed)


def _grade(chosen: Exercise, path: Path, record: Record, seconds: float, seed: int | None) -> int:
    from gradwright.doctor.commands import exercise_told as told
    from gradwright.exercises.record import digest
    from gradwright.exercises.start import graded

    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from None
    outcome: Outcome = graded(chosen, path, seconds=seconds, seed=seed)
    say(told.outcome(chosen, str(path), outcome, color=color()))
    if outcome.passed:
        record.note(chosen, file=str(path), passed=digest(text))
        return CLEAN
    return FINDINGS
