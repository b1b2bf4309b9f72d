"""How many bytes of tensors one call has at once beyond those it was given: counted, so the same each time."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from gradwright.doctor.prove.counting import MOST_OPERATIONS, Counting
from gradwright.ground.torch_versions.trees import tree_leaves


class PeakBytes(Counting):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Counts the storages that operations make inside, while they live. ``peak``: the most bytes at once.

    torch keeps a storage's Python object for as long as the storage lives, so that a weak reference tells its end.
    """

    def __init__(self, most_operations: int = MOST_OPERATIONS) -> None:
        super().__init__(most_operations)
        self.peak = 0
        self._now = 0
        self._live: dict[int, weakref.ref[torch.UntypedStorage]] = {}

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
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._live:
            return

        def ended(_: object) -> None:
            self._now -= size
            del self._live[key]

        self._live[key] = weakref.ref(storage, ended)
        self._now += size
        self.peak = max(self.peak, self._now)
