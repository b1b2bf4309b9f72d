"""Losses that lie on an accelerator: read later, many at once, so that nobody waits for them at each step.

To read a number from a GPU is to wait until all that was asked of it is done. So each loss is copied where it lies (one
kernel, in the stream of the script; the loss itself may be changed in place, or be a view of something large), and the
copies are read together, when there are ``KEPT`` of them and when the script is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from gradwright.ground.tensors import is_being_captured
from gradwright.ground.torch_versions.modes import DisableTorchFunction

KEPT = 64  # scalars, of 512 bytes each as CUDA allocates them: one wait in so many steps

S = TypeVar("S")


class LateLosses(Generic[S]):
    """``read(site, number)`` is called for each loss, in the order in which they were kept.

    >>> late = LateLosses(lambda site, number: print(site, number))
    >>> late.keep("loss.backward()", torch.tensor(0.5)), late.holds("loss.backward()")
    (None, True)
    >>> late.read_all()
    loss.backward() 0.5
    """

    def __init__(self, read: Callable[[S, float], None]) -> None:
        self._read = read
        self._kept: list[tuple[S, Tensor]] = []

    def holds(self, site: S) -> bool:
        """Whether a loss of that site is waiting: a later one must not be told before it."""
        return any(one is site for one, _ in self._kept)

    def keep(self, site: S, loss: Tensor) -> None:
        """Never waits, unless it is the last that there is room for."""
        with torch.no_grad(), DisableTorchFunction():
            self._kept.append((site, loss.detach().clone().reshape(())))
        if len(self._kept) >= KEPT:
            self.read_all()

    def read_all(self) -> None:
        """Waits once for each device and dtype. What can't be read (a device that failed) is lost, and raises."""
        kept, self._kept = self._kept, []
        numbers = [0.0] * len(kept)
        kinds: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for index, (_, value) in enumerate(kept):
            kinds.setdefault((value.device, value.dtype), []).append(index)
        for indices in kinds.values():
            values = torch.stack([kept[index][1] for index in indices]).tolist()
            for index, number in zip(indices, values, strict=True):
                numbers[index] = number
        for (site, _), number in zip(kept, numbers, strict=True):
            self._read(site, number)


def is_read_later(loss: Tensor) -> bool:
    """A plain real number on an accelerator, outside of a capture (whose memory is another run's)."""
    if type(loss) is not Tensor or loss.device.type in ("cpu", "meta") or loss.is_complex():
        return False
    return not is_being_captured(loss)
