"""Loops and what an expert would have written, for ``how_fast_is_the_fix.py``."""

from __future__ import annotations

from loops_to_mend import carried, elements, places, reductions, windows
from loops_to_mend.task import Task

TASKS: list[Task] = [*elements.TASKS, *reductions.TASKS, *windows.TASKS, *places.TASKS, *carried.TASKS]
