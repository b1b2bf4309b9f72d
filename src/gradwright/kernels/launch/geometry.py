"""How broadcast operands and results lie in memory, as a few rows of columns.

Axes of length 1 go, the others are put in the order in which the largest operand lies in memory, and neighbours that
every tensor walks through without a jump become one. What is left, mostly one axis or two, is the last one (the
columns, an inner loop with one stride per tensor) and all others (the rows).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Strides = tuple[int, ...]

# Below this many columns, the longest axis becomes the inner loop instead of the one nearest in memory.
FEW_COLUMNS = 16


@dataclass(frozen=True)
class Geometry:
    """``sizes``: of the axes that are left, columns last. ``strides``: of every walker (operands, then results) along
    them, in elements. ``order``: the axes of the full shape in the order that was chosen, without those of length 1."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]
    order: tuple[int, ...]

    @property
    def columns(self) -> int:
        return self.sizes[-1]

    @property
    def rows(self) -> int:
        return math.prod(self.sizes[:-1])


def memory_order(full: Sequence[int], strides: Sequence[Strides]) -> tuple[int, ...]:
    """The axes of the full shape, the slowest first, as the walker with the most elements has them in memory; axes that
    it does not walk along, and equal ones, stay in their own order."""
    axes = [axis for axis, size in enumerate(full) if size != 1]
    walked = [[axis for axis in axes if own[axis]] for own in strides]
    if not walked:
        return tuple(axes)
    lead = max(range(len(strides)), key=lambda k: (len(walked[k]), -k))
    moved = iter(sorted(walked[lead], key=lambda axis: -abs(strides[lead][axis])))
    return tuple(next(moved) if strides[lead][axis] else axis for axis in axes)


def geometry_of(full: Sequence[int], order: Sequence[int], strides: Sequence[Strides]) -> Geometry:
    """The fewest axes that all walkers can share. ``strides`` run along ``full``: 0 where a walker stands still."""
    sizes: list[int] = []
    paths: list[list[int]] = [[] for _ in strides]
    for axis in order:
        step = [own[axis] for own in strides]
        if sizes and all(path[-1] == here * full[axis] for path, here in zip(paths, step, strict=True)):
            sizes[-1] *= full[axis]
            for path, here in zip(paths, step, strict=True):
                path[-1] = here
        else:
            sizes.append(full[axis])
            for path, here in zip(paths, step, strict=True):
                path.append(here)
    if not sizes:
        sizes, paths = [1], [[0] for _ in strides]
    if sizes[-1] < FEW_COLUMNS and max(sizes) > sizes[-1]:
        longest = sizes.index(max(sizes))
        for row in (sizes, *paths):
            row.append(row.pop(longest))
    return Geometry(tuple(sizes), tuple(tuple(path) for path in paths), tuple(order))


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> Strides:
    """The strides of a new tensor of this shape whose axes lie in memory in this order, the slowest first."""
    strides, step = [1] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Does every element have a place of its own, and no place is left empty?"""
    step = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride != step:
            return False
        step *= size
    return True
