"""Entries chosen, moved or added by index tensors.

An index is a constant of the graph. Along another axis than the batch's it moves entries within a sample; along the
batch's own it may move them between samples, unless it counts 0, 1, 2, ... there: x[arange(B), label].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import (
    carried,
    linear_push,
    linear_spread,
    moved,
    plus,
    saved_axis,
    the_reach,
)
from gradwright.derivatives.nodes.reach import joined_reach
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.derivatives.nodes.softmaxes import along_axis_batch
from gradwright.ground.torch_versions.nodes import read_saved


class Layout:
    """Where the axes of x go in x[i_0, i_1, ...], some of the i absent.

    ``indexed``: the axes of x that have an index, with the index, a mask counted as the indices of its true entries.
    ``block``: the axes of the result that the indices make, at the place of the first where the indices stand
    together, in front otherwise.  ``axes``: for each axis of the result, that of x it comes from; None in the block.
    """

    def __init__(self, indices: Sequence[Tensor | None], ndim: int) -> None:
        self.indexed: dict[int, Tensor] = {}
        axis = 0
        for index in indices:
            if index is None:
                axis += 1
                continue
            masks = index.dtype in (torch.bool, torch.uint8)
            for part in index.nonzero(as_tuple=True) if masks else (index,):
                self.indexed[axis] = part
                axis += 1
        self.block_shape = torch.broadcast_tensors(*self.indexed.values())[0].shape  # type: ignore[no-untyped-call]
        free = [axis for axis in range(ndim) if axis not in self.indexed]
        first, last = min(self.indexed), max(self.indexed)
        self.together = last - first + 1 == len(self.indexed)
        before = first if self.together else 0
        self.block = range(before, before + len(self.block_shape))
        self.axes: list[int | None] = [*free[:before], *[None] * len(self.block_shape), *free[before:]]

    def source(self, place: Place, shape: torch.Size) -> Place | None:
        """Where the batch of the result lies in x, of ``shape``; None where an index may move entries across it."""
        axis = self.axes[place.axis]
        if axis is not None:
            return moved(place, axis)
        along, count = place.axis - self.block.start, self.block_shape[place.axis - self.block.start]
        for axis, index in self.indexed.items():
            if shape[axis] == count and _counts(index, along, self.block_shape):
                return moved(place, axis)
        return None


def _counts(index: Tensor, along: int, shape: torch.Size) -> bool:
    """Whether an index, broadcast to ``shape``, is 0, 1, 2, ... along one axis and the same along the others."""
    line = torch.arange(shape[along], device=index.device).reshape(-1, *(1,) * (len(shape) - along - 1))
    return bool((index == line).all()) and (index.ndim >= len(shape) - along or shape[along] == 1)


def _layout(step: Step) -> Layout:
    return Layout(read_saved(step.node, "indices"), len(step.inputs[0].shape))


def _index_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    return [_layout(step).source(place, step.inputs[0].shape)]


def _index(step: Step, stack: Tensor) -> Tensor:
    layout = _layout(step)
    made: Tensor = torch.ops.aten.index(stack, [None, *read_saved(step.node, "indices")])
    return made if layout.together else made.movedim(len(layout.block_shape), 0)


def _index_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    into = the_reach(reach)
    whole, one = read_saved(step.node, "self_sym_sizes"), into.shape[1:]
    if any(whole[axis] != one[axis] for axis in _layout(step).indexed):
        return {}  # an index along the batch: it differs by sample
    return {0: _index(step, into)}


def _put_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # x with values put at x[indices]: the values lie in x as the result of an index would
    into, values = step.inputs
    found: Place | None = None
    if values.leads:
        shape = step.shape()
        layout = Layout(read_saved(step.node, "indices"), len(shape))
        for axis in range(len(layout.axes)):
            lying = axis - len(layout.axes) + len(values.shape)
            if lying < 0 or values.shape[lying] != shape[place.axis]:
                continue  # the values were broadcast along this axis
            if layout.source(moved(place, axis), shape) == place:
                found = moved(place, lying)
    return [place if into.leads else None, found]


def _put_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    node, shape = step.node, step.shape()
    indices = [None, *read_saved(node, "indices")]

    def cleared(stack: Tensor) -> Tensor:
        if read_saved(node, "accumulate"):
            return stack
        return torch.ops.aten.index_put(stack, indices, stack.new_zeros(()))  # type: ignore[no-any-return]

    def placed(stack: Tensor) -> Tensor:
        # autograd hands every value its cotangent, also where a later one was put over it: the transpose adds
        layout = Layout(read_saved(node, "indices"), len(shape))
        ones = (1,) * (len(layout.axes) - stack.ndim + 1)
        values = stack.reshape(len(stack), *ones, *stack.shape[1:])
        zeros = stack.new_zeros(len(stack), *shape)
        return torch.ops.aten.index_put(zeros, indices, values, True)  # type: ignore[no-any-return]

    into, values = jets
    return {
        0: plus(
            None if into is None else carried(into, cleared),
            None if values is None else carried(values, placed),
        )
    }


def _put_pushes(step: Step, order: int) -> bool:
    return not step.inputs[1].leads or Layout(read_saved(step.node, "indices"), len(step.shape())).together


def _self_only(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    # entries are at most overwritten
    return {} if any(into is not None for into in reach[1:]) else {0: the_reach(reach)}


def _select(step: Step, stack: Tensor) -> Tensor:
    return stack.index_select(_at(step), read_saved(step.node, "index")) if step.shape() else stack


def _at(step: Step) -> int:
    return saved_axis(step) + 1


def _gather_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # along the other axes the index may stop short
    same = step.inputs[0].shape[place.axis] == step.shape()[place.axis]
    return along_axis_batch(step, place, number) if same else [None]


def _gather(step: Step, stack: Tensor) -> Tensor:
    index = read_saved(step.node, "index")
    return stack.gather(_at(step), index.expand(len(stack), *index.shape)) if step.shape() else stack


def _gather_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    into, shape = the_reach(reach), step.shape()
    axis = saved_axis(step)
    if any(one != other for at, (one, other) in enumerate(zip(into.shape[1:], shape, strict=True)) if at != axis):
        return {}
    return {0: into.any(axis + 1, keepdim=True).expand(len(into), *shape)}


def _into_batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # x with the entries of a second tensor put in, or added, along an axis
    axis, shape = saved_axis(step), step.shape()
    found: list[Place | None] = [place if into.leads else None for into in step.inputs]
    for index, into in enumerate(step.inputs[1:], 1):
        same = into.leads and len(into.shape) == len(shape) and into.shape[place.axis] == shape[place.axis]
        found[index] = place if same and place.axis != axis else None
    return found


def _into(replaces: bool, whole: bool) -> Rule:
    """``whole``: the index counts slices of the axis; else it has an entry for each entry of the source."""

    def push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
        node, shape, axis = step.node, step.shape(), _at(step)
        index: Any = read_saved(node, "index")

        def cleared(stack: Tensor) -> Tensor:
            if not replaces:
                return stack
            if whole:
                return stack.index_fill(axis, index, 0)
            return stack.scatter(axis, index.expand(len(stack), *index.shape), 0)

        def placed(stack: Tensor) -> Tensor:
            # autograd hands every entry its cotangent, also where a later one was put over it: the transpose adds
            zeros = stack.new_zeros(len(stack), *shape)
            if whole:
                return zeros.index_add(axis, index, stack)
            return zeros.scatter_add(axis, index.expand(len(stack), *index.shape), stack)

        source = jets[1] if len(jets) > 1 else None
        if source is not None:
            alpha = read_saved(node, "alpha", 1)
            source = carried(source, lambda stack: placed(stack if alpha == 1 else stack * alpha))
        return {0: plus(None if jets[0] is None else carried(jets[0], cleared), source)}

    def spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
        into, source = reach[0], reach[1] if len(reach) > 1 else None
        shape, axis = step.shape(), saved_axis(step)
        if source is None:
            return {0: the_reach(reach)}
        sizes = zip(source.shape[1:], shape, strict=True)
        if any(one != other for at, (one, other) in enumerate(sizes) if at != axis):
            return {}
        seen = source.any(axis + 1, keepdim=True).expand(len(source), *shape)
        return {0: joined_reach([into, seen], shape)}

    def pushes(step: Step, order: int) -> bool:
        return len(step.inputs) == 1 or not step.inputs[1].leads or len(step.inputs[1].shape) == len(step.shape()) > 0

    return Rule(_into_batch, push, spread, pushes=pushes)


RULES = {
    "IndexBackward0": Rule(_index_batch, linear_push(_index), _index_spread),
    "IndexPutBackward0": Rule(_put_batch, _put_push, _self_only, pushes=_put_pushes),
    "IndexSelectBackward0": Rule(along_axis_batch, linear_push(_select), linear_spread(_select)),
    "GatherBackward0": Rule(_gather_batch, linear_push(_gather), _gather_spread),
    "ScatterBackward0": _into(replaces=True, whole=False),
    "ScatterBackward1": _into(replaces=True, whole=False),
    "ScatterAddBackward0": _into(replaces=False, whole=False),
    "IndexAddBackward0": _into(replaces=False, whole=True),
    "IndexCopyBackward0": _into(replaces=True, whole=True),
    "IndexFillBackward0": _into(replaces=True, whole=True),
}
