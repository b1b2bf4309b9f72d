"""How closely numbers of a dtype can be compared, and the quiet surroundings of a call in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gradwright.checking.chance import reproducible


@dataclass(frozen=True)
class Precision:
    """How closely numbers can be compared. ``floor``: tensors are raised to at least this dtype.

    ``tolerance``: between two exact gradients, relative to the largest entry. ``fine``: below it there is nothing to
    see; between the two, a difference counts only where finite differences confirm it. ``differences``: as
    ``tolerance``, for finite differences. ``steps``: relative step sizes, in pairs, the most promising pair first.
    ``entry_noise``, ``value_noise``: how many ``eps`` may be rounding in a gradient's entry, and in a value; generous
    where that is far below everything else, close where it is not.
    """

    name: str
    floor: torch.dtype | None
    eps: float
    tolerance: float
    fine: float
    differences: float
    steps: tuple[tuple[float, float], ...]
    entry_noise: float = 64.0
    value_noise: float = 4.0


DOUBLE = Precision(
    "float64", torch.float64, 2.3e-16, 1e-5, 1e-9, 1e-5, ((1e-4, 1e-5), (1e-5, 1e-6), (1e-3, 1e-4), (1e-2, 1e-3))
)
SINGLE = Precision("float32", torch.float32, 1.2e-7, 1e-3, 1e-4, 1e-2, ((3e-2, 1e-2), (1e-2, 3e-3), (1e-1, 3e-2)))
# only as they are given: bfloat16, float16
HALF = Precision("half", None, 7.9e-3, 5e-2, 5e-2, 1e-1, ((0.5, 0.25), (1.0, 0.5)), 2.0, 0.5)
HALF16 = Precision("half", None, 9.8e-4, 1e-2, 1e-2, 5e-2, ((0.25, 0.125), (0.5, 0.25)), 4.0, 0.5)


@contextmanager
def quiet(precision: Precision, seed: int) -> Iterator[None]:
    """Same random numbers, no warnings, and new tensors of default dtype as wide as the precision."""
    default = torch.get_default_dtype()
    try:
        if precision.floor is not None and torch.finfo(default).eps > torch.finfo(precision.floor).eps:
            torch.set_default_dtype(precision.floor)
        with warnings.catch_warnings(), reproducible(seed):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(default)
