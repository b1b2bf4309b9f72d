"""Other values of the kind that a tensor holds: same shape, same range, same signs, same structure."""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.checking.structure import structure_of


def redrawn(tensor: Tensor, generator: torch.Generator, *, structured: bool = True) -> Tensor:
    """Values like those of ``tensor``, each between two given ones of the same sign (a complex one: a little smaller).

    Integers, zeros and ones stay what they are, if there is nothing else. A structure that is recognised (see
    ``structure``) is kept, unless ``structured`` is off. Shapes, dtype, device: those of ``tensor``, a floating-point
    or complex one that is not empty.
    """
    flat = tensor.detach().reshape(-1).cpu()
    one = flat[torch.randint(flat.numel(), flat.shape, generator=generator, device="cpu")]
    if flat.is_complex() or not torch.equal(flat, flat.round()):
        share = 0.3 * torch.rand(flat.shape, generator=generator, dtype=torch.float64, device="cpu").to(flat.dtype)
        other = flat[torch.randint(flat.numel(), flat.shape, generator=generator, device="cpu")]
        nearby = other if flat.is_complex() else torch.where(one.sign() == other.sign(), other, one * 0.9)
        one = one * (1 - share) if flat.is_complex() else one + share * (nearby - one)
    drawn = one.reshape(tensor.shape)
    kind = structure_of(tensor) if structured else None
    if kind is not None:
        drawn = kind.restore(drawn.to(torch.float64)).to(drawn.dtype)
    result = drawn.to(tensor.device)
    return torch.nn.Parameter(result, False) if isinstance(tensor, torch.nn.Parameter) else result
