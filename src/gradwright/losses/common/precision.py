"""In which dtype a loss is computed, and in which it is handed over."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from gradwright.ground.torch_versions.modes import is_any_autocast_enabled

HALF: Final = (torch.float16, torch.bfloat16)


def widened(tensor: Tensor) -> Tensor:
    """A tensor of 16 bits as float32, any other as it is.

    >>> widened(torch.ones(1, dtype=torch.float16)).dtype, widened(torch.ones(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return tensor.float() if tensor.dtype in HALF else tensor


def dtype_of_value(dtype: torch.dtype) -> torch.dtype:
    """Of a sum or mean of that dtype: float32 instead of 16 bits under autocast, as torch's own losses do it.

    >>> dtype_of_value(torch.bfloat16)
    torch.bfloat16
    >>> with torch.autocast("cpu"):
    ...     dtype_of_value(torch.bfloat16)
    torch.float32
    """
    return torch.float32 if dtype in HALF and is_any_autocast_enabled() else dtype
