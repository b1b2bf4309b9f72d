"""How the tensors of a row program lie in memory: along batches, classes and positions.

The axes of the rows are put in the order in which the first tensor of elements has them in memory, and neighbours that
every tensor walks through without a jump become one. Two groups of them can be walked, the batches and the positions;
where more are left (some slices, some permutations) the tensors are copied first. So are they where rows are long and
their elements lie apart, in both directions: every pass would pay for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from gradwright.kernels.code.layout import BYTES
from gradwright.kernels.code.row_layout import STEPS
from gradwright.kernels.code.row_writer import SIDE_BY_SIDE
from gradwright.kernels.formula.stages import Axes, RowProgram, Way
from gradwright.kernels.launch.geometry import dense_strides, is_dense
from gradwright.kernels.launch.results import Operand

Steps = Mapping[str, int]

SHORT_ROW: Final = 23  # elements, up to which a run of rows is packed into a scratch buffer


class Blocks(NamedTuple):
    """``positions`` of a batch go into a block; ``segments`` blocks make a batch."""

    positions: int
    segments: int
    total: int


@dataclass(frozen=True)
class Lines:
    """``steps``: of every operand, in elements, along "batch", "class" and "position", those that it has. ``order``:
    of the axes in memory, for results; ``copied``: operands that are copied, in that order, before a kernel reads."""

    shape: tuple[int, ...]
    dim: int
    batches: int
    classes: int
    positions: int
    steps: tuple[Steps, ...]
    order: tuple[int, ...]
    copied: frozenset[int]
    groups: tuple[tuple[int, ...], ...]  # the axes of the batches, and those of the positions
    is_row: tuple[bool, ...]

    @property
    def sizes(self) -> dict[str, int]:
        return {"batch": self.batches, "class": self.classes, "position": self.positions}

    def moved(self, walks: Iterable[tuple[Axes | Way, str]]) -> int:
        """Bytes that these walks read or write: each along what axes, and of what kind its elements are."""
        sizes = self.sizes
        return sum(BYTES.get(kind, 0) * math.prod(sizes[axis] for axis in STEPS[along]) for along, kind in walks)

    def ready(self, place: int, operand: Operand) -> Operand:
        """The operand as the kernel reads it."""
        if not isinstance(operand, Tensor):
            return operand
        if place not in self.copied:
            return operand
        return _copied(operand, self._order(self.is_row[place]))

    def _order(self, of_rows: bool) -> tuple[int, ...]:
        if not of_rows:
            return self.order
        return tuple(axis - (axis > self.dim) for axis in self.order if axis != self.dim)

    def result(self, way: str) -> tuple[tuple[int, ...], tuple[int, ...], Steps]:
        """Shape, strides and steps of a new tensor for every element, or every row."""
        if way == "element":
            strides = dense_strides(self.shape, self.order)
            return self.shape, strides, _steps(strides, self.dim, self.groups)
        shape = tuple(size for axis, size in enumerate(self.shape) if axis != self.dim)
        strides = dense_strides(shape, self._order(True))
        whole = (*strides[: self.dim], 0, *strides[self.dim :])
        return shape, strides, {k: v for k, v in _steps(whole, self.dim, self.groups).items() if k != "class"}

    def blocked(self, elements: int, parts: int, are_side_by_side: bool) -> Blocks:
        """Blocks of so many elements; about ``parts`` of them at most, where there are parts."""
        if not self.batches * self.positions * self.classes:
            return Blocks(1, 1, 0)
        whole = SIDE_BY_SIDE if are_side_by_side else 1  # runs
        rows = max(elements // self.classes // whole, 1) * whole
        if parts:
            rows = max(rows, -(-self.batches * self.positions // (parts * whole)) * whole)
        rows = min(rows, self.positions)
        segments = -(-self.positions // rows)
        return Blocks(rows, segments, segments * self.batches)


def _steps(strides: Sequence[int], dim: int, groups: Sequence[Sequence[int]]) -> dict[str, int]:
    batch, position = [strides[group[-1]] if group else 0 for group in groups]
    return {"batch": batch, "class": strides[dim], "position": position}


def lines_of(program: RowProgram, operands: Sequence[Operand], dim: int) -> Lines:
    """How these operands are walked."""
    lead = next(
        o for (_, axes), o in zip(program.inputs, operands, strict=True) if axes == "element" and isinstance(o, Tensor)
    )
    shape = tuple(lead.shape)
    order = tuple(sorted(range(len(shape)), key=lambda axis: -lead.stride()[axis] if shape[axis] != 1 else 0))
    if not is_dense(shape, lead.stride()):
        order = tuple(range(len(shape)))
    is_row = tuple(axes == "row" for _, axes in program.inputs)
    whole: list[Sequence[int] | None] = []
    for (_, axes), operand in zip(program.inputs, operands, strict=True):
        if not isinstance(operand, Tensor) or axes == "class":
            whole.append(None)
        elif axes == "row":
            whole.append((*operand.stride()[:dim], 0, *operand.stride()[dim:]))
        else:
            whole.append(operand.stride())
    row_axes = [axis for axis in order if axis != dim and shape[axis] != 1]
    groups = _merged(row_axes, shape, [strides for strides in whole if strides is not None])
    copied: set[int] = set()
    innermost = groups[-1][-1] if groups else dim
    elements = [w for w, (_, axes) in zip(whole, program.inputs, strict=True) if w is not None and axes == "element"]
    is_apart = shape[dim] > SHORT_ROW and any(min(each[dim], each[innermost]) > 1 for each in elements)
    if len(groups) > 2 or is_apart:
        # Everything in the order of ``order``, which leaves the axes before ``dim`` and those behind it.
        copied = {place for place, strides in enumerate(whole) if strides is not None}
        dense = dense_strides(shape, order)
        row_order = tuple(axis - (axis > dim) for axis in order if axis != dim)
        of_rows = dense_strides([size for axis, size in enumerate(shape) if axis != dim], row_order)
        spread = (*of_rows[:dim], 0, *of_rows[dim:])
        whole = [None if w is None else spread if is_row[place] else dense for place, w in enumerate(whole)]
        groups = _merged(row_axes, shape, [strides for strides in whole if strides is not None])
    outer, inner = [(), *groups][-2:] if groups else ((), ())
    steps: list[Steps] = []
    for (_, axes), operand, strides in zip(program.inputs, operands, whole, strict=True):
        if strides is not None:
            found = _steps(strides, dim, (outer, inner))
            steps.append({k: v for k, v in found.items() if axes == "element" or k != "class"})
        else:
            steps.append({"class": operand.stride(0)} if isinstance(operand, Tensor) else {})
    return Lines(
        shape,
        dim,
        math.prod(shape[axis] for axis in outer),
        shape[dim],
        math.prod(shape[axis] for axis in inner),
        tuple(steps),
        order,
        frozenset(copied),
        (tuple(outer), tuple(inner)),
        is_row,
    )


def _merged(axes: Sequence[int], shape: Sequence[int], walkers: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Neighbours that every walker walks through without a jump, together."""
    groups: list[tuple[int, ...]] = []
    for axis in axes:
        if groups and all(walker[groups[-1][-1]] == walker[axis] * shape[axis] for walker in walkers):
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups


def _copied(tensor: Tensor, order: Sequence[int]) -> Tensor:
    strides = dense_strides(tensor.shape, order)
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
