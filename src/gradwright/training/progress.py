"""A bar on stderr while windows go by, where somebody looks on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from gradwright.training.update import Update


class Progress:
    """``wanted``: True, False, or None for where stderr is a terminal. On rank 0 only."""

    def __init__(self, wanted: bool | None, rank: int) -> None:
        self._on = (sys.stderr.isatty() if wanted is None else wanted) and rank == 0
        self._bar: Any = None
        self._task: Any = None

    @contextlib.contextmanager
    def over(self, loader: Iterable[Any], steps: int | None) -> Iterator[None]:
        if not self._on:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("updates"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
        )
        with Progress(*columns, console=Console(file=sys.stderr), transient=True) as self._bar:
            self._task = self._bar.add_task("updates", total=_updates(loader, steps), loss="")
            try:
                yield
            finally:
                self._bar = None

    def update(self, update: Update) -> None:
        if self._bar is not None:
            self._bar.update(self._task, advance=1, loss=f"loss {update.loss:.4g}")


def _updates(loader: Any, steps: int | None) -> int | None:
    try:
        batches = len(loader)
    except TypeError:
        return None
    return -(-batches // (steps or 1))
