"""What a loss is divided by: the items of a window, over all of its micro-batches and all ranks.

Notation: micro-batch i of rank r has the loss sum S_ri over n_ri items. The full batch's gradient is that of

    L = sum_ri S_ri / N,      N = sum_ri n_ri

Data parallel engines average the ranks' gradients, so a rank's share of it is S_ri · W / N, W the number of ranks; a
mean M_ri = S_ri / n_ri is multiplied by n_ri first. Dividing by the number of micro-batches instead is right only where
all n_ri are equal (the mean of means; transformers#34191, accelerate#2831, lightning#19987).
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import Tensor

from gradwright.errors import UsageError
from gradwright.training.batches import sample_count

Normalize: TypeAlias = Literal["items", "samples", "steps"]
Reduction: TypeAlias = Literal["sum", "mean"]
Items: TypeAlias = int | float | Tensor
Count: TypeAlias = Callable[[Any], Items | Mapping[str, Items]]
Counts: TypeAlias = dict[str, float]

EVERY_LOSS = ""  # the name of a count that holds for every loss
MOST_LOSSES = 16


@dataclass(frozen=True)
class Counting:
    """How the items of a micro-batch are counted before its loss is known; None: they are said at ``backward``."""

    normalize: Normalize
    count: Count | None
    losses: Mapping[str, Callable[[Any], Any]] | None = None

    @classmethod
    def of(cls, normalize: Normalize, count: Count | Mapping[str, Count] | None) -> Counting:
        """Raises: UsageError."""
        if normalize not in ("items", "samples", "steps"):
            raise UsageError(f"normalize is {normalize!r}: it is 'items', 'samples' or 'steps'")
        if normalize != "items" and count is not None:
            raise UsageError(f"count= says how items are counted; with normalize={normalize!r} none are")
        if isinstance(count, Mapping):
            return cls(normalize, None, dict(count))
        if count is not None and not callable(count):
            raise UsageError(f"count= takes a function of a micro-batch (or one for each loss), not {count!r}")
        return cls(normalize, count)

    @property
    def known_before(self) -> bool:
        return self.normalize != "items" or self.count is not None or self.losses is not None

    @property
    def by_steps(self) -> bool:
        return self.normalize == "steps"

    def of_batch(self, batch: Any) -> Counts | None:
        if self.normalize == "steps":
            return {EVERY_LOSS: 1.0}
        if self.normalize == "samples":
            return {EVERY_LOSS: float(sample_count(batch))}
        if self.losses is not None:
            return {name: as_number(count(batch), f"count[{name!r}]") for name, count in self.losses.items()}
        if self.count is None:
            return None
        counted: Any = self.count(batch)
        by_loss = counted if isinstance(counted, Mapping) else {EVERY_LOSS: counted}
        return {name: as_number(value, _called(name)) for name, value in by_loss.items()}


def _called(name: str) -> str:
    return f"count(batch)[{name!r}]" if name else "count(batch)"


def as_number(items: Items, what: str) -> float:
    """A count as a number; one that lives on an accelerator is waited for. Raises: UsageError."""
    number: Any = items
    if isinstance(items, Tensor):
        if items.numel() != 1:
            raise UsageError(f"{what} has shape {list(items.shape)}: a count is one number (write .sum())")
        number = items.item()
    if isinstance(number, bool) or not isinstance(number, numbers.Real) or not 0 <= float(number) < float("inf"):
        raise UsageError(f"{what} is {number!r}: a count is a number of items, 0 or more")
    return float(number)


def count_of(counts: Counts, name: str, what: str) -> float:
    """Raises: UsageError, where a loss has no count of its own and none holds for all."""
    found = counts.get(name, counts.get(EVERY_LOSS))
    if found is None:
        said = ", ".join(repr(one) for one in counts) or "none"
        raise UsageError(f"the loss {name!r} has no count: {what} counts {said}")
    return found


def in_a_row(counts: Counts | None) -> list[float]:
    """Counts in the order of their names, padded to one length: every rank sends as many numbers."""
    names = sorted(counts or ())
    if len(names) > MOST_LOSSES:
        raise UsageError(f"{len(names)} losses are counted; {MOST_LOSSES} are the most")
    values = [(counts or {})[name] for name in names]
    return values + [0.0] * (MOST_LOSSES - len(values))


def summed(counts: list[Counts]) -> Counts:
    names = sorted({name for one in counts for name in one})
    return {name: sum(one.get(name, 0.0) for one in counts) for name in names}


def scaled(loss: Tensor, factor: float) -> Tensor:
    """``loss * factor``; itself where that is 1, so that a window of one micro-batch is the plain step to the bit."""
    return loss if factor == 1.0 else loss * factor
