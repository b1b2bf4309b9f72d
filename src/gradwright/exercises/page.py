"""The page of the exercises, for the documentation: what each asks. No hints, no torch."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from gradwright.exercises.catalog import Exercise, all_exercises

_HEAD = """\
<!-- Made by `python tools/generate.py` from src/gradwright/exercises/tasks: edit the task.md there. -->

# Exercises

Small tasks, from a square with a backward of its own to a fused cross entropy. Each is a file to fill in:

```sh
gradwright exercise              # the list, and how far you are in this folder
gradwright exercise 5            # begins exercise_05_huber.py and tells the task; from then on grades that file
gradwright exercise 5 --hint     # the next of three hints
gradwright exercise 5 --solution
```

An answer is graded in a process of its own, on inputs that are drawn anew each time (empty batches, single samples,
odd layouts and large values among them): first its value, against a reference in double precision; then its gradient,
by `gw.check`, which names the cause of a wrong one, and against the reference; then what the exercise demands besides.
A loop is found by counting operations, not by the clock, and what is forbidden by what torch dispatches, not by the
text. At the end it says how fast the answer is, beside our solution and torch's own. It exits with 0 when the answer is
right, with 1 when it is not yet."""


def page() -> str:
    """Markdown: a table of all exercises, and a section for each.

    >>> page().count("\\n## ") == len(all_exercises())
    True
    """
    return "\n\n".join((_HEAD, "\n".join(_table()), *map(_section, all_exercises()))) + "\n"


def _table() -> Iterator[str]:
    yield "| | exercise | level | minutes |"
    yield "| --: | --- | --- | --: |"
    for one in all_exercises():
        yield f"| {one.number} | [{one.title}](#{_anchor(one)}) | {one.level} | {one.minutes} |"


def _section(exercise: Exercise) -> str:
    return (
        f"## {exercise.number}. {exercise.title}\n\n"
        f"{exercise.level}, about {exercise.minutes} minutes · `{exercise.file}`\n\n"
        f"{_fenced(exercise.task)}\n\nAsked:\n\n{exercise.asked}"
    )


def _anchor(exercise: Exercise) -> str:
    """As GitHub and MkDocs make it of the heading.

    >>> _anchor(all_exercises()[1])
    '2-an-autogradfunction-by-hand'
    """
    heading = f"{exercise.number} {exercise.title}".lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def _fenced(task: str) -> str:
    """Indented blocks as fenced ones, which every renderer shows alike.

    >>> print(_fenced("Write:\\n\\n    y = x\\n    z = y\\n\\nDone."))
    Write:
    <BLANKLINE>
    ```text
    y = x
    z = y
    ```
    <BLANKLINE>
    Done.
    """
    blocks = task.split("\n\n")
    return "\n\n".join(
        f"```text\n{textwrap.dedent(block)}\n```" if block.startswith("    ") else block for block in blocks
    )
