"""DistributedDataParallel: forward and backward of all micro-batches but the last stand inside ``no_sync``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradwright.errors import AccumulationError
from gradwright.ground.torch_versions.distributed import rebuild_buckets
from gradwright.ground.torch_versions.tensors import version_of
from gradwright.training.engines.engine import Engine
from gradwright.training.ranks import Ranks


class DataParallel(Engine):
    """Its reducer averages what stands in ``.grad``, in the backward of a forward that was made outside ``no_sync``."""

    model: DistributedDataParallel
    prepared_by_forward = True  # its reducer; Lightning prepares it before a backward

    def __init__(self, model: DistributedDataParallel, seconds: float) -> None:
        super().__init__(model, Ranks(model.process_group, seconds=seconds))
        self._before: dict[Tensor, int] | None = None
        self._sharing = False
        self._rebuilds = False
        self._shared = False

    @contextlib.contextmanager
    def micro_batch(self, *, share: bool) -> Iterator[None]:
        self._rebuild()
        if not share:
            with self.model.no_sync():
                yield
            return
        self._before = {p: -1 if p.grad is None else version_of(p.grad) for p in self.parameters()}
        self._sharing = True
        self._await_forward()
        try:
            yield
        finally:
            self._sharing = False
            self._rebuilds, self._shared = not self._shared, True
            self.model.require_forward_param_sync = bool(self.model.require_forward_param_sync)

    def _rebuild(self) -> None:
        """Behind the first micro-batch that shared, DDP orders its buckets anew, and sends the order around in the next
        forward. Here a rank that is lost meanwhile is named; in the user's forward its error would be the wire's."""
        if self._rebuilds:
            self._rebuilds = False
            with self.ranks.naming("ordering DDP's buckets"):
                rebuild_buckets(self.model)

    def _await_forward(self) -> None:
        """Each forward of DDP writes a bool there; until then the same truth stands there as a number."""
        self.model.require_forward_param_sync = int(self.model.require_forward_param_sync)  # type: ignore[assignment]

    def before_backward(self) -> None:
        """A backward that finds no forward of DDP since the last one is not shared, in silence."""
        if not self._sharing or not self.prepared_by_forward:
            return
        if type(self.model.require_forward_param_sync) is not bool:
            raise AccumulationError(
                f"rank {self.ranks.name}, window {self.ranks.window}: DDP shares the gradients of one backward for a "
                "forward, and this backward has no forward of the DistributedDataParallel model since the last one: "
                "its gradients would stay on this rank. Give all losses to one backward ({'name': loss, ...}), or run "
                "forward and backward in turn; call the wrapped model, not its .module"
            )
        self._await_forward()

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self.model.module
        return module

    def meets_in_forward(self, share: bool) -> bool:
        """It sends the buffers of rank 0 around; and once the order of the buckets."""
        buffers = self.model.require_forward_param_sync and next(self.model.module.buffers(), None) is not None
        return self._rebuilds or (share and buffers)

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
            if version == (-1 if parameter.grad is None else version_of(parameter.grad))
        ]
        if unused:
            raise AccumulationError(
                f"rank {self.ranks.name}, window {self.ranks.window}: {', '.join(unused[:3])}"
                f"{f' and {len(unused) - 3} more' if len(unused) > 3 else ''} had no gradient in the last micro-batch, "
                "in which DDP averages: their gradients, and those of their bucket, are not shared between the ranks. "
                "Wrap the model in DDP(..., find_unused_parameters=True)"
            )
