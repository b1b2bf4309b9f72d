"""DistributedDataParallel: forward and backward of all micro-batches but the last stand inside ``no_sync``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gradwright.errors import AccumulationError
from gradwright.training.engines.engine import Engine
from gradwright.training.ranks import Ranks


class DataParallel(Engine):
    """Its reducer averages what stands in ``.grad``, in the backward of a forward that was made outside ``no_sync``."""

    model: DistributedDataParallel

    def __init__(self, model: DistributedDataParallel, seconds: float) -> None:
        super().__init__(model, Ranks(model.process_group, seconds=seconds))
        self._before: dict[Tensor, int] | None = None

    @contextlib.contextmanager
    def micro_batch(self, *, share: bool) -> Iterator[None]:
        if not share:
            with self.model.no_sync():
                yield
            return
        self._before = {p: -1 if p.grad is None else p.grad._version for p in self.parameters()}
        yield

    def check(self) -> None:
        """A parameter without a gradient in the synchronising backward leaves its bucket unreduced, silently (#69031);
        with ``find_unused_parameters`` DDP sees to it itself."""
        before, self._before = self._before, None
        if before is None or self.model.find_unused_parameters or self.model.static_graph:
            return
        names = {parameter: name for name, parameter in self.model.module.named_parameters()}
        unused = [
            names.get(parameter, "a parameter")
            for parameter, version in before.items()
            if version == (-1 if parameter.grad is None else parameter.grad._version)
        ]
        if unused:
            raise AccumulationError(
                f"rank {self.ranks.rank}, window {self.ranks.window}: {', '.join(unused[:3])}"
                f"{f' and {len(unused) - 3} more' if len(unused) > 3 else ''} had no gradient in the last micro-batch, "
                "in which DDP averages: their gradients, and those of their bucket, are not shared between the ranks. "
                "Wrap the model in DDP(..., find_unused_parameters=True)"
            )
