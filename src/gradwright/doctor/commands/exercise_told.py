"""What ``gradwright exercise`` prints: the list, a task, a hint, what became of an answer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import click

from gradwright.doctor.render.wording import clean, counted, seconds
from gradwright.exercises.catalog import LEVELS, Exercise
from gradwright.exercises.outcome import Failure, Outcome, Speed

WIDTH = 100
_STATES = {"not begun": "", "begun": "begun", "passed": "passed", "changed": "begun (an earlier text passed)"}
_PAINTED = {"passed": "green", "begun": "yellow", "changed": "yellow"}


def listed(exercises: Sequence[tuple[Exercise, str]], *, color: bool) -> str:
    """A line for each, with the state of the learner's file in this folder."""
    longest = max(len(one.title) for one, _ in exercises)
    lines = []
    for level in LEVELS:
        lines += [_paint(level, color, bold=True, underline=True)]
        for one, state in exercises:
            if one.level == level:
                word = _paint(_STATES[state], color, fg=_PAINTED.get(state))
                lines.append(f"  {one.number:>2}  {one.title:<{longest}}  {one.minutes:>2} min  {word}".rstrip())
        lines.append("")
    passed = sum(state == "passed" for _, state in exercises)
    lines.append(
        f"{counted(len(exercises), 'exercise')}, {passed} passed here · gradwright exercise 1 begins the first"
    )
    return "\n".join(lines) + "\n"


def task(exercise: Exercise, path: str) -> str:
    n = exercise.number
    return (
        f"exercise {n} · {exercise.title} · {exercise.level}, about {exercise.minutes} min\n\n"
        f"{exercise.task}\n\nasked\n\n{exercise.asked}\n\n"
        f"{clean(path)} is begun: fill it in, then\n"
        f"  gradwright exercise {n}             grades it\n"
        f"  gradwright exercise {n} --hint      gives a hint ({len(exercise.hints)} there are)\n"
        f"  gradwright exercise {n} --solution  shows a solution\n"
    )


def hint(exercise: Exercise, number: int) -> str:
    """``number`` counts from 0."""
    last = number + 1 == len(exercise.hints)
    after = (
        f"\nthat was the last hint: gradwright exercise {exercise.number} --solution shows a solution\n" if last else ""
    )
    return f"hint {number + 1} of {len(exercise.hints)}\n\n{exercise.hints[number]}\n{after}"


def outcome(exercise: Exercise, path: str, made: Outcome, *, color: bool) -> str:
    """A line for each step, the first fault in words, how fast it is."""
    lines = [f"exercise {exercise.number} · {exercise.title} · {clean(path)}", ""]
    widest = max((len(step.name) for step in made.steps), default=0)
    for step in made.steps:
        word, tone = {True: ("right", "green"), False: ("NOT YET", "red"), None: ("not reached", None)}[step.passed]
        painted = _paint(word, color, fg=tone) + " " * (11 - len(word))
        lines.append(f"  {clean(step.name):<{widest}}  {painted}  {clean(step.said)}".rstrip())
    if made.speed is not None:
        lines.append(f"  {'speed':<{widest}}  {_speed(made.speed)}")
    lines.append("")
    if made.failure is not None:
        lines += [*_failure(made.failure, color), ""]
        n = exercise.number
        again = f" · these inputs again: --seed {made.seed}" if made.seed is not None else ""
        lines.append(f"not yet · gradwright exercise {n} --hint gives a hint{again}")
    elif made.passed:
        lines.append(_paint("passed", color, fg="green", bold=True))
    return "\n".join(lines) + "\n"


def _speed(speed: Speed) -> str:
    """Told, not judged: on a busy machine it says little."""
    told = f"{speed.yours / speed.solution:.1f} times our solution's {seconds(speed.solution)}"
    if speed.builtin is not None:
        told += f", {speed.yours / speed.builtin:.1f} times torch's {seconds(speed.builtin)}"
    return f"{told} ({clean(speed.of)})"


def _failure(failure: Failure, color: bool) -> Iterator[str]:
    if failure.code:
        yield _paint(clean(failure.code), color, fg="red", bold=True)
    told = {name: getattr(failure, name) for name in ("what", "where", "cause", "why", "do")}
    if failure.code:
        told["more"] = f"gradwright explain {failure.code.partition(' ')[0]}"
    for name, text in told.items():
        if text:
            yield from textwrap.wrap(
                clean(text),
                WIDTH,
                initial_indent=f"  {name:<6} ",
                subsequent_indent=" " * 9,
                break_on_hyphens=False,
            )


def _paint(text: str, color: bool, **style: object) -> str:
    return click.style(text, **style) if color and text else text  # type: ignore[arg-type]
