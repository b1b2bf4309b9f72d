"""Gradients in buffers beside ``.grad``: in a wider type, or each loss's by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradwright.training.gradients.store import Backward, Store
from gradwright.training.ranks import Ranks


class Buffers(Store):
    """A buffer for each parameter (and each loss where ``apart``), in ``dtype``.

    Cost: ``apart`` is one backward for each loss. Memory: the parameters' elements in ``dtype``, for each loss where
    ``apart``. 256 bfloat16 micro-batches into a bfloat16 ``.grad`` are off by 1.6e-2, into a float32 buffer by 5.6e-4
    (research/losses_and_accumulation.md).
    """

    def __init__(self, parameters: Sequence[Tensor], *, dtype: torch.dtype | None, apart: bool, ranks: Ranks | None):
        super().__init__(parameters)
        self.dtype, self.apart = dtype, apart
        self._ranks = ranks
        self.by_loss: dict[str, list[Tensor | None]] = {}

    def clear(self) -> None:
        self.by_loss = {}
        for parameter in self.parameters:
            parameter.grad = None

    def add(self, losses: Mapping[str, Tensor], backward: Backward, *, keep_graph: bool) -> None:
        if not self.apart:
            losses = {"": _total(losses)} if losses else {}
        names = list(losses)
        for name in names:
            backward(losses[name], keep_graph or name != names[-1])
            self._take(self.by_loss.setdefault(name, [None] * len(self.parameters)))

    @torch.no_grad()
    def _take(self, sums: list[Tensor | None]) -> None:
        for index, parameter in enumerate(self.parameters):
            gradient, parameter.grad = parameter.grad, None
            if gradient is None:
                continue
            known = sums[index]
            if known is None:
                wider = gradient.to(self.dtype) if self.dtype is not None else gradient
                sums[index] = wider
            else:
                known += gradient

    @torch.no_grad()
    def finish(self, factors: Mapping[str, float]) -> None:
        self.share()
        self.combine(factors)

    @torch.no_grad()
    def share(self) -> None:
        """Sum over the ranks, where the engine did not. What has no gradient on this rank counts as zero; what has none
        on any keeps none, so that an optimizer leaves it alone."""
        if self._ranks is None or self._ranks.count == 1:
            return
        for name in sorted(self.by_loss):
            sums = self.by_loss[name]
            used = torch.tensor([one is not None for one in sums], dtype=torch.float32)
            self._ranks.sum_([used], "asking which parameters have gradients")
            for index, anywhere in enumerate(used.tolist()):
                if anywhere and sums[index] is None:
                    like = self.parameters[index]
                    sums[index] = torch.zeros_like(like, dtype=self.dtype or like.dtype)
            self._ranks.sum_([one for one in sums if one is not None], "summing the gradients")

    @torch.no_grad()
    def combine(self, factors: Mapping[str, float]) -> None:
        """Their sum, each loss by its factor; where they were added up, they have one factor."""
        together = next(iter(factors.values()), 1.0)
        for index, parameter in enumerate(self.parameters):
            total: Tensor | None = None
            for name, sums in self.by_loss.items():
                part = sums[index]
                if part is None:
                    continue
                factor = factors.get(name, together) if self.apart else together
                part = part if factor == 1.0 else part * factor
                total = part if total is None else total + part
            if total is not None:
                parameter.grad = total.to(parameter.dtype)


def _total(losses: Mapping[str, Tensor]) -> Tensor:
    first, *rest = losses.values()
    for loss in rest:
        first = first + loss
    return first
