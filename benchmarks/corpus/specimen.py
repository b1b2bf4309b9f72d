"""An operator at one sample: what everything else here is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Call = Callable[..., Outputs]


@dataclass(frozen=True)
class Specimen:
    """``call(*args)`` gives a tuple of tensors; ``args`` are tensors, those that require a gradient are wanted.

    ``kinked``: at ``args`` itself central differences don't agree with torch's gradient, but beside it they do.
    ``variant``: what was done to the operator ("" if nothing), see ``wrapping``.
    """

    operator: str
    sample: int
    call: Call
    args: tuple[Tensor, ...]
    kinked: bool = False
    variant: str = ""

    @property
    def wanted(self) -> tuple[int, ...]:
        return tuple(index for index, arg in enumerate(self.args) if arg.requires_grad)

    def fresh(self) -> tuple[Tensor, ...]:
        """Copies of the arguments: leaves that require a gradient where the originals do."""
        return tuple(arg.detach().clone().requires_grad_(arg.requires_grad) for arg in self.args)

    def at(self, args: Sequence[Tensor]) -> Specimen:
        return replace(self, args=tuple(args))


def differentiable(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def real_only(specimen: Specimen) -> bool:
    """Are all its differentiable outputs real?"""
    with torch.no_grad():
        return not any(output.is_complex() for output in specimen.call(*specimen.fresh()))
