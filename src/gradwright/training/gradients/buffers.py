"""Gradients in buffers beside ``.grad``: in a wider type, or each loss's by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from gradwright.ground.torch_versions.tensors import foreach_mul_
from gradwright.training.gradients.store import Backward, Store
from gradwright.training.products import added
from gradwright.training.ranks import Ranks

Join = Callable[[Mapping[str, Sequence["Tensor | None"]], float], "Sequence[Tensor | None]"]


class Buffers(Store):
    """A buffer for each parameter (and each loss where ``apart``), in ``dtype``.

    ``order``: of the losses, where it is not that of their names: the same on all ranks. ``join``: makes one gradient
    of the losses' gradients, given what they are multiplied by (``scale``); None: their sum.

    Cost: ``apart`` is one backward for each loss. Memory: the parameters' elements in ``dtype``, for each loss where
    ``apart``. 256 bfloat16 micro-batches into a bfloat16 ``.grad`` are off by 1.6e-2, into a float32 buffer by 5.6e-4
    (research/losses_and_accumulation.md).
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        dtype: torch.dtype | None,
        apart: bool,
        ranks: Ranks | None,
        order: Sequence[str] = (),
        join: Join | None = None,
        scale: Callable[[], float] = lambda: 1.0,
    ) -> None:
        super().__init__(parameters)
        self.dtype, self.apart = dtype, apart
        self.outside = ranks is not None
        self._ranks, self._order, self._join, self._scale = ranks, order, join, scale
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

    def take_over(self, name: str, store: Store) -> None:
        """What ``store`` has summed up, all of it of one loss."""
        if isinstance(store, Buffers):
            self.by_loss[name] = next(iter(store.by_loss.values()))
        else:
            self._take(self.by_loss.setdefault(name, [None] * len(self.parameters)))

    @torch.no_grad()
    def _take(self, sums: list[Tensor | None]) -> None:
        for index, parameter in enumerate(self.parameters):
            gradient, parameter.grad = parameter.grad, None
            if gradient is None:
                continue
            known = sums[index]
            if known is None:
                sums[index] = gradient.to(self._wide(gradient))
            else:
                known += gradient

    def _wide(self, like: Tensor) -> torch.dtype:
        """What it is summed up in; of complex numbers, that of their parts."""
        if self.dtype is None:
            return like.dtype
        return self.dtype.to_complex() if like.is_complex() else self.dtype

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
                    sums[index] = torch.zeros_like(like, dtype=self._wide(like))
            self._ranks.sum_([one for one in sums if one is not None], "summing the gradients")

    @torch.no_grad()
    def combine(self, factors: Mapping[str, float]) -> None:
        """Each loss by its factor, in its buffer (where they were added up, they have one); ``.grad`` gets what they
        make together, and shares no memory with what is kept apart."""
        together = next(iter(factors.values()), 1.0)
        names = [name for name in self._order if name in self.by_loss]
        names += sorted(name for name in self.by_loss if name not in names)
        self.by_loss = {name: self.by_loss[name] for name in names}
        for name, sums in self.by_loss.items():
            factor = factors.get(name, together) if self.apart else together
            known = [one for one in sums if one is not None]
            if factor != 1.0 and known:
                foreach_mul_(known, factor)
        apart = list(zip(*self.by_loss.values(), strict=True))
        joined = [added(parts) for parts in apart] if self._join is None else self._join(self.by_loss, self._scale())
        for parameter, kept, total in zip(self.parameters, apart, joined, strict=bool(apart)):
            if total is not None:
                one = total.to(parameter.dtype)
                parameter.grad = one.clone() if self.apart and any(one is part for part in kept) else one


def _total(losses: Mapping[str, Tensor]) -> Tensor:
    first, *rest = losses.values()
    for loss in rest:
        first = first + loss
    return first
