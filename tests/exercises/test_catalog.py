"""What exercises there are: found in their folders, whole, and told alike everywhere."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from gradwright.exercises import catalog
from gradwright.exercises.catalog import LEVELS, Exercise, all_exercises, exercise_of
from gradwright.exercises.grading.grading import called_as, grading_of

EXERCISES = pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)


def test_they_are_numbered_from_easy_to_hard() -> None:
    exercises = all_exercises()
    assert [one.number for one in exercises] == list(range(1, len(exercises) + 1)) and len(exercises) >= 16
    levels = [LEVELS.index(one.level) for one in exercises]
    assert levels == sorted(levels) and set(levels) == {0, 1, 2}
    assert len({one.title for one in exercises}) == len(exercises)


@EXERCISES
def test_an_exercise_is_whole(exercise: Exercise) -> None:
    assert exercise.task and exercise.asked.startswith("- ") and 5 <= exercise.minutes <= 60
    assert len(exercise.hints) == 3
    assert f"gradwright exercise {exercise.number}` grades" in exercise.stub
    for text in (exercise.stub, exercise.solution):
        names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert grading_of(exercise).name in names


@EXERCISES
def test_the_task_names_what_is_defined_and_what_is_forbidden(exercise: Exercise) -> None:
    grading = grading_of(exercise)
    assert f"`{grading.name}" in exercise.task
    by_hand = {"torch.autograd.grad", "torch.autograd.backward"}  # goes without saying where a backward is asked
    if set(grading.forbidden) - by_hand:
        assert re.search(r"\b[Nn]ot (`|torch's own)", exercise.asked), grading.forbidden
    assert called_as(grading).startswith(grading.name)


def test_a_further_exercise_is_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(exercise_of(5).folder, tmp_path / "e17_another")
    (tmp_path / "notes").mkdir()
    monkeypatch.setattr(catalog, "TASKS", tmp_path)
    all_exercises.cache_clear()
    try:
        (found,) = all_exercises()
        assert (found.number, found.file) == (17, "exercise_17_another.py")
    finally:
        all_exercises.cache_clear()
