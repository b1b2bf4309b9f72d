"""What an engine has to say of itself: how its ranks share gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from gradwright.training.ranks import Ranks


class Engine:
    """One process, or the data-parallel engine of a model.

    ``forwards_meet``: its forwards wait for one another (parameters are gathered), so every rank needs as many
    micro-batches. ``sums_outside``: gradients that are kept elsewhere than in ``.grad`` are summed by ``Ranks``.
    """

    forwards_meet = False
    sums_outside = True

    def __init__(self, model: nn.Module, ranks: Ranks) -> None:
        self.model, self.ranks = model, ranks

    @contextlib.contextmanager
    def micro_batch(self, *, share: bool) -> Iterator[None]:
        """Around forward and backward of one micro-batch; ``share``: what was summed up until its end is averaged over
        the ranks."""
        yield

    def check(self) -> None:
        """After the last backward of a window. Raises: AccumulationError, where gradients were not shared."""

    def parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]


class SingleProcess(Engine):
    """A model by itself."""

    def __init__(self, model: nn.Module, seconds: float) -> None:
        super().__init__(model, Ranks(alone=True, seconds=seconds))


def whole(value: Any) -> Any:
    """A DTensor's value, whole; any other tensor as it is."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value
