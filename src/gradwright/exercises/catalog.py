"""What exercises there are: one per folder of ``tasks`` (``e05_huber``). There is no registry; no torch."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

TASKS = Path(__file__).with_name("tasks")
LEVELS = ("easy", "medium", "hard")

_FOLDER = re.compile(r"e(\d\d)_(\w+)")
_HINT = re.compile(r"Hint \d")


@dataclass(frozen=True, slots=True)
class Exercise:
    """``task``, ``asked`` and ``hints``: Markdown without headings. ``minutes``: how long it may take a newcomer."""

    number: int
    name: str
    title: str
    level: str
    minutes: int
    task: str
    asked: str
    hints: tuple[str, ...]
    folder: Path

    @property
    def module(self) -> str:
        """The module that holds its ``GRADING``; it imports torch."""
        return f"gradwright.exercises.tasks.{self.folder.name}"

    @property
    def file(self) -> str:
        """What the learner's file is called: ``exercise_05_huber.py``."""
        return f"exercise_{self.number:02}_{self.name}.py"

    @property
    def stub(self) -> str:
        return (self.folder / "stub.py").read_text(encoding="utf-8")

    @property
    def solution(self) -> str:
        return (self.folder / "solution.py").read_text(encoding="utf-8")


@functools.cache
def all_exercises() -> tuple[Exercise, ...]:
    """Every exercise, by number.  Cost: reads one small file for each.

    >>> [exercise.file for exercise in all_exercises()][4]
    'exercise_05_huber.py'
    """
    found = ((folder, _FOLDER.fullmatch(folder.name)) for folder in TASKS.iterdir() if folder.is_dir())
    read = [_read(folder, int(match[1]), match[2]) for folder, match in found if match]
    return tuple(sorted(read, key=lambda exercise: exercise.number))


def exercise_of(number: int) -> Exercise | None:
    return next((exercise for exercise in all_exercises() if exercise.number == number), None)


def _read(folder: Path, number: int, name: str) -> Exercise:
    """``task.md``: a heading, ``level:`` and ``minutes:``, the task, ``## Asked``, and a section for each hint."""
    head, *sections = re.split(r"^## ", (folder / "task.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    title, _, rest = head.partition("\n")
    fields = dict(re.findall(r"^(level|minutes): (.+)$", rest, flags=re.MULTILINE))
    told = {first.strip(): text.strip() for first, _, text in (section.partition("\n") for section in sections)}
    assert fields["level"] in LEVELS, f"{folder.name}: level is one of {LEVELS}"
    return Exercise(
        number=number,
        name=name,
        title=title.removeprefix("# ").strip(),
        level=fields["level"],
        minutes=int(fields["minutes"]),
        task=re.sub(r"^(level|minutes): .+\n", "", rest, flags=re.MULTILINE).strip(),
        asked=told["Asked"],
        hints=tuple(text for name, text in told.items() if _HINT.match(name)),
        folder=folder,
    )
