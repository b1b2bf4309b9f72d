"""What a kernel's results are written into, and how they become the tensors that were asked for.

The device is named wherever memory is taken: torch.set_default_device may say another one.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from gradwright.kernels.launch.geometry import Strides
from gradwright.kernels.launch.results import Result

Memory = Any  # a tensor, or an array: each outcome has its own
_CELLS: Final[dict[torch.dtype, Any]] = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}


class Outcome(Protocol):
    """Memory for a kernel, and what is made of it."""

    def place(self) -> tuple[int, Memory]:
        """An address, and what keeps it alive."""
        ...

    def finish(self, memory: Memory, result: Result) -> Tensor: ...


@dataclass(frozen=True)
class Whole:
    """An element for each element: the result as it is, but for its factor.

    ``dtype``: what the kernel writes; the result's own, unless there is a factor to be multiplied by before rounding.
    """

    shape: tuple[int, ...]
    strides: Strides
    dtype: torch.dtype

    def place(self) -> tuple[int, Tensor]:
        memory = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="cpu")
        return memory.data_ptr(), memory

    def finish(self, memory: Memory, result: Result) -> Tensor:
        made: Tensor = memory
        return made if result.factor is None else made.mul_(result.factor).to(result.dtype)


@dataclass(frozen=True)
class WholeThenSummed:
    """An element for each element, of which torch sums the ``axes``."""

    shape: tuple[int, ...]
    strides: Strides
    dtype: torch.dtype
    axes: tuple[int, ...]
    final: tuple[int, ...]

    def place(self) -> tuple[int, Tensor]:
        memory = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="cpu")
        return memory.data_ptr(), memory

    def finish(self, memory: Memory, result: Result) -> Tensor:
        return _rounded(memory.sum(self.axes, dtype=torch.float64), result, self.final)


@dataclass(frozen=True)
class Summed:
    """Sums, in float64, of rows or of columns: ``parts`` of which the ``axes`` remain to be summed; what is left are
    the ``kept`` axes, of lengths ``sizes``, in the order of memory."""

    parts: tuple[int, ...]
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    sizes: tuple[int, ...]
    final: tuple[int, ...]

    def place(self) -> tuple[int, Tensor]:
        memory = torch.empty(self.parts, dtype=torch.float64, device="cpu")
        return memory.data_ptr(), memory

    def finish(self, memory: Memory, result: Result) -> Tensor:
        sums = memory.sum(self.axes).view(self.sizes)
        natural = sums.permute(sorted(range(len(self.kept)), key=lambda place: self.kept[place]))
        return _rounded(natural, result, self.final)


@dataclass(frozen=True)
class Total:
    """One sum a block. They are added up exactly."""

    blocks: int
    final: tuple[int, ...]

    def place(self) -> tuple[int, array[float]]:
        memory = array("d", bytes(8 * self.blocks))
        return memory.buffer_info()[0], memory

    def finish(self, memory: Memory, result: Result) -> Tensor:
        total = memory[0] if self.blocks == 1 else exact_sum(memory)
        if result.factor is not None:
            total *= float(result.factor)
        cell = result.dtype if result.dtype in _CELLS else torch.float64
        made = torch.empty(self.final, dtype=cell, device="cpu")
        # torch.full takes longer, and refuses what overflows.
        _CELLS[cell].from_address(made.data_ptr()).value = total
        return made if cell == result.dtype else made.to(result.dtype)


def exact_sum(numbers: Sequence[float]) -> float:
    """The sum, rounded once; infinities and NaN as addition has them."""
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):
        return sum(numbers)


def _rounded(sums: Tensor, result: Result, final: tuple[int, ...]) -> Tensor:
    made = torch.empty(final, dtype=result.dtype, device="cpu")
    return made.copy_((sums if result.factor is None else sums * result.factor).reshape(final))
