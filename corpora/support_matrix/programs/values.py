"""What the programs start from, in double precision, and what is right: all gradients are 2.5 times the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SCALE = 2.5
VALUES = (0.5, -1.0, 2.0)


def leaf(*values: float, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A leaf that wants a gradient."""
    return torch.tensor(values or VALUES, dtype=dtype, requires_grad=True)


def constant(*values: float) -> torch.Tensor:
    return torch.tensor(values or VALUES, dtype=torch.float64)


def raised(program: Callable[[], Any]) -> Any:
    """What came of a program for which an error is right: "an error", or what it returned instead."""
    try:
        return program()
    except Exception:
        return "an error"
