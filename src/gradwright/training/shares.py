"""A micro-batch's share of its window's loss; and the window's items and losses, over all ranks."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.counting import (
    Counting,
    Counts,
    Items,
    Reduction,
    as_number,
    count_of,
    in_a_row,
    scaled,
)  # fmt: skip
from gradwright.training.engines import Engine
from gradwright.training.gradients import Store
from gradwright.training.running import Running
from gradwright.training.several import sum_losses

Losses = Mapping[str, "Tensor | tuple[Tensor, Items]"]


def named_losses(loss: Tensor | Losses, items: Items | None) -> dict[str, tuple[Tensor, Items | None]]:
    """Each loss with what was said of its number of items. Raises: UsageError."""
    if isinstance(loss, Tensor):
        return {"loss": (loss, items)}
    if not isinstance(loss, Mapping) or not loss:
        raise UsageError(f"backward takes a loss, or a mapping from names to losses, not {type(loss).__name__}")
    if items is not None and any(isinstance(value, tuple) for value in loss.values()):
        raise UsageError("the losses come with their own numbers of items: leave items= out")
    return {name: value if isinstance(value, tuple) else (value, items) for name, value in loss.items()}


class Shares:
    """What the losses of micro-batches are multiplied by."""

    def __init__(self, counting: Counting, engine: Engine) -> None:
        self._counting, self._engine = counting, engine

    def averaged(self, store: Store) -> float:
        """What undoes the mean over the ranks, where the engine takes one."""
        return 1.0 if store.outside else self._engine.replicas

    def items(self, running: Running, name: str, said: Items | None) -> float:
        """How many items this micro-batch has in a loss. Raises: UsageError."""
        number = None if said is None else as_number(said, f"items of {name!r}")
        counts = running.counts
        if counts is None:
            if number is None:
                raise UsageError(
                    "what is the loss divided by? Say how many items this micro-batch holds (backward(..., items=n)), "
                    "how they are counted (GradientAccumulator(count=...)), or normalize='samples'"
                )
            return number
        counted = count_of(counts, name, "count")
        if number is not None and self._counting.normalize == "items" and number != counted:
            where = f"rank {self._engine.ranks.name}, window {running.window.index}"
            raise UsageError(
                f"{where}: count= found {counted:g} items in this micro-batch, and backward says {number:g}: "
                "the window was divided by the first. Let one of them say it"
            )
        return counted if number is None else number

    def of(self, running: Running, name: str, loss: Tensor, reduction: Reduction, items: float, store: Store) -> Tensor:
        """The share of a loss; what is divided by at the end, where that is not known yet, is left out."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise UsageError(f"the loss {name!r} is {shape}, not one number: sum it up, and say reduction='sum'")
        running.counted(name, items)
        steps = self._counting.by_steps
        weight = 1.0 if reduction == "sum" or steps else items
        if reduction == "mean" and items == 0:
            return running.nothing(loss, self._engine)
        total = running.window.all_steps if steps else running.total(name, items)
        if total is None:
            return scaled(loss, weight)
        return scaled(loss, weight * self.averaged(store) / total if total else 0.0)

    def to_sum(self, running: Running, store: Store, unscaling: float) -> dict[str, float]:
        """What makes sums over items of the gradients that stand there now: see ``Gradients.to_sum``."""
        if running.coupled:
            return {}
        averaged = self.averaged(store)
        if not running.divided:
            return dict.fromkeys(running.items_so_far(), unscaling * (averaged if running.shared else 1.0))
        totals = running.totals_here(self._counting.by_steps)
        return {name: unscaling * total / (1.0 if running.shared else averaged) for name, total in totals.items()}

    def over_ranks(self, running: Running, store: Store) -> tuple[Counts, dict[str, Tensor]]:
        """The items and the losses of the whole window."""
        ranks = self._engine.ranks
        totals = running.totals_here(self._counting.by_steps)
        if running.window.totals is None and ranks.count > 1:
            rows = ranks.gather(in_a_row(totals), "adding the items up")
            totals = {name: sum(row[at] for row in rows) for at, name in enumerate(sorted(totals))}
        losses = sum_losses(ranks, running.losses())
        for name, loss in losses.items():
            losses[name] = loss / (self.averaged(store) if running.divided else totals.get(name) or 1.0)
        return totals, losses
