"""A bar on stderr while windows go by, where somebody looks on."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from gradwright.training.update import Update

_SECONDS_BETWEEN_READINGS = 0.2


class Progress:
    """``wanted``: True, False, or None for where stderr is a terminal. On rank 0 only, and one at a time: windows of a
    second accumulator within have none."""

    _shown: ClassVar[bool] = False

    def __init__(self, wanted: bool | None, rank: int) -> None:
        self._on = (sys.stderr.isatty() if wanted is None else wanted) and rank == 0
        self._next_reading = 0.0
        self._bar: Any = None
        self._task: Any = None

    @contextlib.contextmanager
    def over(self, loader: Iterable[Any], steps: int | None) -> Iterator[None]:
        if not self._on or Progress._shown:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("updates"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
        )
        with Bar(*columns, console=Console(file=sys.stderr), transient=True) as self._bar:
            self._task = self._bar.add_task("updates", total=_updates(loader, steps), loss="")
            Progress._shown = True
            try:
                yield
            finally:
                self._bar, Progress._shown = None, False

    def update(self, update: Update) -> None:
        """The loss is read a few times a second at most: a reading waits for its device."""
        if self._bar is None:
            return
        self._bar.advance(self._task)
        if (now := time.monotonic()) >= self._next_reading:
            self._next_reading = now + _SECONDS_BETWEEN_READINGS
            self._bar.update(self._task, loss=f"loss {update.loss:.4g}")


def _updates(loader: Any, steps: int | None) -> int | None:
    try:
        batches = len(loader)
    except TypeError:
        return None
    return -(-batches // (steps or 1))
