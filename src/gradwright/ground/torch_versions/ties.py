"""The derivative of ``torch.clamp`` at its bounds, which is another one in another torch (2.13 and 2.14, for two).

| at a bound | torch 2.13 | torch 2.14 |
| --- | --- | --- |
| bounds that are numbers | 1 | 0 |
| bounds that are tensors: to x, to the bound | 1, 0 | 1/2, 1/2 |
| x or a tensor bound is NaN: to x | 0 | 1 |

Torch is asked, not its version: a build may lie between two of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from gradwright.ground.threads import run_unmoded
from gradwright.ground.torch_versions.capability import Capability

# Of each point and each argument that has a derivative.
_Slopes = tuple[tuple[float, ...], ...]


class Ties(NamedTuple):
    """Which of the known conventions torch's derivative of clamp follows."""

    #: With numbers as bounds the slope at a bound is 1; otherwise it is 0.
    passes_at_numbers: bool
    #: With tensors as bounds, x and the bound that it equals have half of the slope each, as with ``torch.maximum``,
    #: and NaN goes through; otherwise x has all of it, and none where something is NaN.
    shares_with_tensors: bool


def find_ties() -> Ties:
    """The conventions of the torch that is there, which is asked at the first call (1 ms).

    Raises: UnsupportedTorch, where they are none of the known ones.
    """
    CLAMP.require()
    numbers, both, low = _ask()
    return Ties(_NUMBERS[numbers], _TENSORS[both, low])


def _find_unknown() -> str | None:
    numbers, both, low = _ask()
    if numbers not in _NUMBERS:
        return f"slopes at numbers are {numbers}"
    return None if (both, low) in _TENSORS else f"slopes at tensors are {both}, {low}"


CLAMP: Final = Capability("derivative of torch.clamp", "the derivative of clamp in formulas", _find_unknown)

# clamp(x, 0, 1) for x = 0, 1/2, 1, NaN
_NUMBERS: Final[dict[_Slopes, bool]] = {((1, 1, 1, 0),): True, ((0, 1, 0, 0),): False}
_POINTS: Final = ((0.0, 1.0, math.nan, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0, 1.0))
# clamp(x, low, high) at _POINTS, and clamp(x, min=low) at the same x and low
_TENSORS: Final[dict[tuple[_Slopes, _Slopes], bool]] = {
    (
        ((1, 1, 0, 1, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)),
        ((1, 1, 0, 1, 0), (0, 0, 0, 0, 1)),
    ): False,
    (
        ((0.5, 0.5, 1, 1, 0), (0.5, 0, 0, 0, 1), (0, 0.5, 0, 0, 0)),
        ((0.5, 1, 1, 0.5, 0), (0.5, 0, 1, 0.5, 1)),
    ): True,
}


@cache
def _ask() -> tuple[_Slopes, _Slopes, _Slopes]:
    """The slopes of clamp by numbers, by two tensors, and by one."""
    return run_unmoded(
        lambda: (
            _slopes_of(lambda x: x.clamp(0, 1), (0.0, 0.5, 1.0, math.nan)),
            _slopes_of(torch.clamp, *_POINTS),
            _slopes_of(torch.clamp, *_POINTS[:2]),
        )
    )


def _slopes_of(function: Callable[..., Tensor], *points: tuple[float, ...]) -> _Slopes:
    leaves = [torch.tensor(each, dtype=torch.float64, device="cpu", requires_grad=True) for each in points]
    node: Any = function(*leaves).grad_fn
    # The node itself, not torch's engine, which refuses to run in some forked children.
    found = node(torch.ones(len(points[0]), dtype=torch.float64, device="cpu"))
    slopes = (found,) if isinstance(found, Tensor) else found
    return tuple(tuple(each.tolist()) for each in slopes if each is not None)
