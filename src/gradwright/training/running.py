"""The window that is being run through: which micro-batches had their backward, and what they added."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import AccumulationError, UsageError
from gradwright.training.counting import Counts, count_of
from gradwright.training.engines.engine import Engine
from gradwright.training.gradients import Buffers, Store
from gradwright.training.ranks import Ranks
from gradwright.training.window import Window


class Running:
    """Its entries: one for each ``backward``, its losses as they were scaled."""

    def __init__(self, window: Window[Any]) -> None:
        self.window = window
        self.entries: list[tuple[int, dict[str, Tensor]]] = []
        self.step = 0
        self._ended = 0
        self._counts: dict[str, list[float]] = {}

    # one micro-batch

    def begin(self, step: int) -> None:
        self.step = step

    def end(self, step: int) -> None:
        self._ended = step + 1

    @property
    def padded(self) -> bool:
        return self.step >= len(self.window)

    @property
    def counts(self) -> Counts | None:
        return self.window.counts[min(self.step, len(self.window) - 1)]

    def total(self, name: str, items: float) -> float | None:
        """What a loss is divided by; None: that is known after the last micro-batch."""
        if self.window.totals is not None:
            return count_of(self.window.totals, name, "count")
        return items if self.window.all_steps == 1 else None

    @property
    def divided(self) -> bool:
        """Whether each backward could divide; else it is done at the end."""
        return self.window.totals is not None or self.window.all_steps == 1

    def counted(self, name: str, items: float) -> None:
        if not self.padded:
            self._counts.setdefault(name, []).append(items)

    def took(self, losses: dict[str, Tensor]) -> None:
        if not self.padded:
            self.entries.append((self.step, losses))

    def nothing(self, loss: Tensor, engine: Engine) -> Tensor:
        """In place of the mean of no items, which is NaN: a zero that reaches the same leaves."""
        if engine.forwards_meet:
            where = f"rank {engine.ranks.rank}, window {self.window.index}"
            raise AccumulationError(
                f"{where}: the mean of a micro-batch without items is NaN, "
                "and a sharded model needs its backward. Make the loss with reduction='sum'"
            )
        return _zero_at_leaves(loss)

    def refuse_mixed(self, store: Store, losses: int) -> None:
        """Several losses whose counts are said at backward, in one buffer: they could not be divided any more."""
        if self.divided or losses < 2 or (isinstance(store, Buffers) and store.apart):
            return
        raise UsageError(
            "several losses, each with a number of items that only backward says, would be added up before their "
            "denominators are known. Count them before (GradientAccumulator(count={'name': function, ...})), or keep "
            "their gradients apart (separate=True: a backward for each)"
        )

    # all of them

    def check_complete(self, where: str) -> None:
        seen = {step for step, _ in self.entries}
        missing = [step for step in range(len(self.window)) if step not in seen]
        if self._ended < self.window.steps:
            raise AccumulationError(
                f"{where}: {self._ended} of {self.window.steps} micro-batches were run through: the window was divided "
                "by all of them. Do not leave its loop early"
            )
        if missing:
            raise AccumulationError(
                f"{where}: micro-batch {missing[0]} had no backward, and the window was divided by all of its items. "
                "Call acc.backward in each, and let count= say what does not count"
            )

    def totals_here(self, steps: bool) -> Counts:
        if steps:
            return {name: float(self.window.all_steps) for name in self._counts}
        if self.window.totals is None:
            return self.items_so_far()
        return {name: count_of(self.window.totals, name, "count") for name in self._counts}

    def items_so_far(self) -> Counts:
        return {name: math.fsum(counts) for name, counts in self._counts.items()}

    def losses(self) -> dict[str, Tensor]:
        names = sorted({name for _, losses in self.entries for name in losses})
        return {
            name: torch.stack([losses[name].reshape(()).double() for _, losses in self.entries if name in losses]).sum()
            for name in names
        }

    def blame(self, ranks: Ranks) -> str:
        """Which micro-batch brought what is not finite."""
        first = next(
            (step for step, losses in self.entries if not all(bool(torch.isfinite(one)) for one in losses.values())), -1
        )
        found = [
            (rank, int(row[0])) for rank, row in enumerate(ranks.gather([first], "looking for NaN")) if row[0] >= 0
        ]
        if not found:
            return "the loss of every micro-batch is finite, so it begins in a backward"
        named = [f"micro-batch {step}" + (f" of rank {rank}" if ranks.count > 1 else "") for rank, step in found[:4]]
        return f"the loss of {', '.join(named)} is NaN or infinite"


def _zero_at_leaves(loss: Tensor) -> Tensor:
    from gradwright.ground.graphs import graph_of

    leaves = [node.variable for node in graph_of([loss]) if hasattr(node, "variable")]
    apply: Callable[..., Tensor] = _Zero.apply
    return apply(*leaves) if leaves else loss.detach() * 0.0


class _Zero(torch.autograd.Function):
    """A zero whose gradients are zeros: leaves get a gradient, and the hooks of an engine run."""

    @staticmethod
    def forward(ctx: Any, *leaves: Tensor) -> Tensor:
        ctx.save_for_backward(*leaves)
        return leaves[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        return tuple(torch.zeros_like(leaf) for leaf in ctx.saved_tensors)
