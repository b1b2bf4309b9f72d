"""The window that is being run through: which micro-batches had their backward, and what they added."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gradwright.errors import AccumulationError, UsageError
from gradwright.training.counting import Counts, count_of
from gradwright.training.engines.engine import Engine
from gradwright.training.gradients import Buffers, Store
from gradwright.training.ranks import Ranks
from gradwright.training.untouched import Untouched
from gradwright.training.window import Window


class Running:
    """Its entries: one for each ``backward``, its losses as they were scaled."""

    def __init__(self, window: Window[Any], *, at_end: bool = False) -> None:
        """``at_end``: no backward can divide, the engine makes them itself."""
        self.window, self._at_end = window, at_end
        self.entries: list[tuple[int, dict[str, Tensor]]] = []
        self.step = 0
        self.untouched = Untouched()
        self.stepped_elsewhere = False  # the optimizer, by the user's own hand
        self.coupled = False  # one loss of the whole window, of which each backward gets its cotangents
        self.meeting = False
        self.shared = False  # this micro-batch's gradients are made those of all ranks, by the engine
        self._ended = 0
        self._counts: dict[str, list[float]] = {}

    # one micro-batch

    def begin(self, step: int, *, meeting: bool) -> None:
        """``meeting``: its backward waits for the other ranks."""
        self.step, self.meeting = step, meeting

    def meet(self, ranks: Ranks) -> None:
        """Before the first backward of a micro-batch that waits for the other ranks. Raises: as ``Ranks.meet``."""
        if self.meeting:
            self.meeting = False
            ranks.meet(self.window.steps - self.step, f"going to the backward of micro-batch {self.step}")

    def refuse_other(self, window: Window[Any], where: str) -> None:
        if window is not self.window:
            raise AccumulationError(
                f"{where}: a micro-batch of one window while another window of this accumulator is under way: its "
                "gradients would be lost. Run one window after the other, or give each an accumulator of its own"
            )

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
        """Whether each backward could divide, or had nothing to divide; else it is done at the end."""
        return not self._at_end and (self.coupled or self.window.totals is not None or self.window.all_steps == 1)

    def counted(self, name: str, items: float) -> None:
        if not self.padded:
            self._counts.setdefault(name, []).append(items)

    def took(self, losses: dict[str, Tensor]) -> None:
        if not self.padded:
            self.entries.append((self.step, losses))

    def nothing(self, loss: Tensor, engine: Engine) -> Tensor:
        """In place of the mean of no items, which is NaN: a zero that reaches the same leaves."""
        if engine.forwards_meet:
            where = f"rank {engine.ranks.name}, window {self.window.index}"
            raise AccumulationError(
                f"{where}: the mean of a micro-batch without items is NaN, "
                "and a sharded model needs its backward. Make the loss with reduction='sum'"
            )
        return zero_at_leaves(loss)

    def mixes(self, store: Store, losses: Mapping[str, Tensor]) -> bool:
        """Several losses whose counts are said at backward, in one buffer: they could not be divided any more."""
        if self.divided or (isinstance(store, Buffers) and store.apart):
            return False
        return max(len(losses), len(self._counts)) > 1

    def refuse_mixed(self, store: Store, losses: Mapping[str, Tensor]) -> None:
        """Raises: UsageError."""
        if not self.mixes(store, losses):
            return
        raise UsageError(
            "several losses, each with a number of items that only backward says, would be added up before their "
            "denominators are known. Count them before (GradientAccumulator(count={'name': function, ...})), or keep "
            "their gradients apart (separate=True: a backward for each)"
        )

    # all of them

    def check_complete(self, where: str) -> None:
        if self.stepped_elsewhere:
            raise AccumulationError(
                f"{where}: the optimizer was stepped behind the loop of this window, before acc.step(), which would "
                "make a second step of the same gradient. Leave optimizer.step() out"
            )
        seen = {step for step, _ in self.entries}
        missing = [step for step in range(len(self.window)) if step not in seen]
        if self._ended < self.window.steps:
            do = "Call acc.step() behind its loop" if self.window.entered else "Do not leave its loop early"
            raise AccumulationError(
                f"{where}: {self._ended} of {self.window.steps} micro-batches were run through: the window was divided "
                f"by all of them. {do}"
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
            name: torch.stack([losses[name].reshape(()) for _, losses in self.entries if name in losses]).double().sum()
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
        several = ranks.count > 1
        named = [
            f"micro-batch {step}" + (f" of rank {ranks.names[rank]}" if several else "") for rank, step in found[:4]
        ]
        return f"the loss of {', '.join(named)} is NaN or infinite"


def zero_at_leaves(loss: Tensor) -> Tensor:
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
