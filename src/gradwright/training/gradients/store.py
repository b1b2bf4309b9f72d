"""The sum of a window's gradients: what autograd leaves in ``.grad``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from gradwright.ground.torch_versions.tensors import foreach_mul_

Backward = Callable[[Tensor, bool], None]  # of a loss; whether its graph is kept


class Store(ABC):
    """Takes the losses of each micro-batch; hands the sum over in ``.grad``.

    ``outside``: it sums over the ranks itself, not the engine.
    """

    outside = False

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)

    @abstractmethod
    def clear(self) -> None:
        """A window begins."""

    @abstractmethod
    def add(self, losses: Mapping[str, Tensor], backward: Backward, *, keep_graph: bool) -> None:
        """The losses of one micro-batch, already scaled."""

    @abstractmethod
    def finish(self, factors: Mapping[str, float]) -> None:
        """A window ends: ``.grad`` holds the sum, each loss by its factor."""


class InPlace(Store):
    """All losses together, by one backward, in ``.grad``. Memory: none of its own."""

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def add(self, losses: Mapping[str, Tensor], backward: Backward, *, keep_graph: bool) -> None:
        total: Tensor | None = None
        for loss in losses.values():
            total = loss if total is None else total + loss
        if total is not None:
            backward(total, keep_graph)

    @torch.no_grad()
    def finish(self, factors: Mapping[str, float]) -> None:
        """One factor for all: losses that were added up can't be told apart any more."""
        (factor,) = set(factors.values()) or {1.0}
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        if factor != 1.0 and gradients:
            foreach_mul_(gradients, factor)
