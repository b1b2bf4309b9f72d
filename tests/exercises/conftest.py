"""Answers are graded in this very process; only what must not survive an answer gets a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.exercises.catalog import exercise_of
from gradwright.exercises.grading.judge import judge
from gradwright.exercises.outcome import Outcome

Grade = Callable[..., Outcome]


@pytest.fixture
def grade(tmp_path: Path) -> Grade:
    """``grade(5, text)``: what becomes of a file with this text; ``seed``: of the inputs."""

    def graded(number: int, text: str, *, seed: int = 0, timed: bool = False) -> Outcome:
        exercise = exercise_of(number)
        assert exercise is not None
        file = tmp_path / exercise.file
        file.write_text(text)
        return judge(exercise, file, seed=seed, timed=timed)

    return graded
