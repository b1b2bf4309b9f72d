"""How many bytes of tensors one call has at once beyond those it was given: counted, so the same each time."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from gradwright.doctor.prove.counting import MOST_OPERATIONS, Counting


class PeakBytes(Counting):
    """Counts the storages that operations make inside, while they live. ``peak``: the most bytes at once.

    Source: storages are told apart by ``StorageWeakRef``, as torch's own multiprocessing does.
    """

    def __init__(self, most_operations: int = MOST_OPERATIONS) -> None:
        super().__init__(most_operations)
        self.peak = 0
        self._now = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}

    def known(self, *given: torch.Tensor) -> None:
        """Storages that were there before."""
        for tensor in given:
            self._note(tensor, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                self._note(value, value.untyped_storage().nbytes())
        return result

    def _note(self, tensor: torch.Tensor, size: int) -> None:
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]  # torch's own
        held = self._live.get(reference.cdata)
        if held is not None and not held[0].expired():  # type: ignore[no-untyped-call]  # the same
            return
        if held is not None:
            self._now -= held[1]
        self._live[reference.cdata] = reference, size
        self._now += size
        if self._now > self.peak:
            self._forget()
            self.peak = max(self.peak, self._now)

    def _forget(self) -> None:
        """Leave out what lives no more."""
        for key, (reference, size) in list(self._live.items()):
            if reference.expired():  # type: ignore[no-untyped-call]  # torch's own
                self._now -= size
                del self._live[key]
