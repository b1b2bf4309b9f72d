"""What a measurement of a suspect comes to, and what all of them count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradwright.doctor.probe.operations import Dispatched, same_memory
from gradwright.ground.tensors import tensor_bytes


@dataclass(frozen=True)
class Measured:
    """``bytes``: read and written. ``minimum_bytes``: its distinct inputs and its result. ``extra_bytes``: of the
    tensors that are made and not needed. ``shapes``: of the parts; ``wide_part``: which of them is float64;
    ``spoilt``: entries that are NaN and should not be."""

    bytes: int
    minimum_bytes: int
    extra_bytes: int
    seconds: float
    shapes: tuple[tuple[int, ...], ...] = ()
    wide_part: int | None = None
    spoilt: int = 0


def are_tensors(values: tuple[Any, ...]) -> bool:
    return all(isinstance(value, Tensor) for value in values)


def distinct(tensors: Iterable[Tensor]) -> int:
    found: list[Tensor] = []
    for tensor in tensors:
        if not any(same_memory(tensor, other) for other in found):
            found.append(tensor)
    return sum(map(tensor_bytes, found))


def seconds_of(steps: Iterable[Dispatched]) -> float:
    return sum(step.seconds for step in steps)
