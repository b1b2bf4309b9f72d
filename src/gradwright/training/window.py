"""A window: the micro-batches of one update, and what is known of them before the first is run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from gradwright.training.counting import Counts, summed

B = TypeVar("B")


class Window(Generic[B]):
    """Iterate over it once for each accumulator that updates from it; each micro-batch runs in the loop's body.

    ``index``: windows that came before it. ``counts``: of each micro-batch here, or None where they are said at
    ``backward``. ``totals``: of all micro-batches and ranks. ``all_steps``: the number of micro-batches of all ranks.
    """

    def __init__(
        self,
        batches: Sequence[B],
        counts: Sequence[Counts | None],
        *,
        index: int,
        totals: Counts | None,
        all_steps: int,
        most_steps: int,
        enter: Callable[[Window[B], int], AbstractContextManager[None]],
        as_given: bool = False,
    ) -> None:
        order = list(range(len(counts))) if as_given else _empty_ones_first(counts)
        self.batches = [batches[at] for at in order]
        self.counts = [counts[at] for at in order]
        self.index, self.totals, self.all_steps = index, totals, all_steps
        self.padding = most_steps - len(self.batches)
        self.entered = False  # its loop is being run through
        self._enter = enter

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def steps(self) -> int:
        """How often its loop's body runs here: sharded models repeat the last micro-batch, by a factor of 0, where
        another rank has more of them."""
        return len(self.batches) + self.padding

    def __iter__(self) -> Generator[B, None, None]:
        self.entered = True
        try:
            for step in range(self.steps):
                with self._enter(self, step):
                    yield self.batches[min(step, len(self.batches) - 1)]
        finally:
            self.entered = False

    def here(self) -> Counts:
        """What the micro-batches of this rank count."""
        return summed([counts for counts in self.counts if counts is not None])


def _empty_ones_first(counts: Sequence[Counts | None]) -> list[int]:
    """The order of the micro-batches: the last one, in which gradients are shared, holds items if any does."""
    order = list(range(len(counts)))
    last = counts[-1] if counts else None
    if last is not None and not any(last.values()):
        full = [at for at in order if any((counts[at] or {}).values())]
        if full:
            order.remove(full[-1])
            order.append(full[-1])
    return order
