"""Random numbers of a generator of our own: the user's random state stays as it is."""

from __future__ import annotations

import torch
from torch import Tensor


def random_like(tensor: Tensor, seed: int) -> Tensor:
    """Standard normal numbers, of the shape, dtype and device of ``tensor``; both parts where it is complex.

    >>> bool((random_like(torch.zeros(2), 1) == random_like(torch.zeros(2), 1)).all())
    True
    """
    generator = torch.Generator(tensor.device).manual_seed(seed)
    real = torch.float64 if tensor.dtype in (torch.float64, torch.complex128) else torch.float32

    def draw() -> Tensor:
        return torch.randn(tensor.shape, generator=generator, dtype=real, device=tensor.device)

    return torch.complex(draw(), draw()).to(tensor.dtype) if tensor.is_complex() else draw().to(tensor.dtype)
