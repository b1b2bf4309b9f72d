"""Views and rearrangements of whole axes: reshape, transpose, expand, repeat, diagonal, ...

All are linear: a jet goes through the very same rearrangement, one axis (the directions) further to the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import Linear, linear_push, linear_spread, moved, wrapped
from gradwright.derivatives.nodes.elementwise import joined, same_place
from gradwright.derivatives.nodes.rule import Batch, Place, Rule
from gradwright.ground.torch_versions.nodes import read_saved


def rearranged(batch: Batch, apply: Linear) -> Rule:
    """The rule of a rearrangement of entries, applied to numbers and to patterns alike."""

    def spread(step: Step, reach: Sequence[Tensor | None]) -> dict[int, Tensor]:
        (into,) = (into for into in reach if into is not None)
        return {0: apply(step, into)}

    return Rule(batch, linear_push(apply), spread)


def along(place_of: Callable[[Step, int], int | None]) -> Batch:
    """The batch part of a rearrangement that takes output axis a from one input axis (None: not from one alone)."""

    def batch(step: Step, place: Place, number: int) -> Sequence[Place | None]:
        axis = place_of(step, place.axis)
        return [None if axis is None else moved(place, axis)]

    return batch


# NOTE [A batch under reshape]: in row-major order, the sample of entry f of a tensor is (f // i) % B, where i counts
# the entries behind the batch. A reshape keeps f, so the batch lies along that axis of the input, of size n and with s
# entries behind it, for which s divides i and B * i / s divides n: then f // i = h * (n s / i) + idx // (i / s) for the
# index idx along it and h before it, and B divides n s / i. An axis split or merged in another way has no such axis.
def _reshaped(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    shape, before = step.shape(), step.inputs[0].shape
    count = shape[place.axis] // max(place.outer * place.inner, 1)
    inner = place.inner * prod(shape[place.axis + 1 :])
    behind = 1
    for axis in reversed(range(len(before))):
        if not behind or not inner or not count:
            break  # nothing in it
        if inner % behind == 0 and before[axis] and before[axis] % (count * (inner // behind)) == 0:
            return [Place(axis, before[axis] // (count * (inner // behind)), inner // behind)]
        behind *= before[axis]
    return [None]


def _reshape(step: Step, stack: Tensor) -> Tensor:
    return stack.reshape(len(stack), *step.shape())


def _permutation(step: Step) -> list[int]:
    ndim = len(step.shape())
    return [wrapped(dim, ndim) for dim in read_saved(step.node, "dims")]


def _permute(step: Step, stack: Tensor) -> Tensor:
    return stack.permute(0, *(dim + 1 for dim in _permutation(step)))


def _swapped(step: Step) -> tuple[int, int]:
    ndim = len(step.shape())
    return wrapped(read_saved(step.node, "dim0"), ndim), wrapped(read_saved(step.node, "dim1"), ndim)


def _transposed(step: Step, axis: int) -> int:
    first, second = _swapped(step)
    return {first: second, second: first}.get(axis, axis)


def _transpose(step: Step, stack: Tensor) -> Tensor:
    first, second = _swapped(step)
    return stack.transpose(first + 1, second + 1)


def _t(step: Step, stack: Tensor) -> Tensor:
    return stack.transpose(1, 2) if len(step.shape()) == 2 else stack


def _filled(step: Step, stack: Tensor) -> Tensor:
    """The missing axes of an input that has fewer than the output."""
    return stack.reshape(len(stack), *[1] * (len(step.shape()) + 1 - stack.ndim), *stack.shape[1:])


def _expand(step: Step, stack: Tensor) -> Tensor:
    return _filled(step, stack).expand(len(stack), *step.shape())


def _repeated(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    # the pattern of samples must repeat within one copy: B * inner divides the size before
    shape, before = step.shape(), step.inputs[0].shape
    axis = place.axis - len(shape) + len(before)
    block = shape[place.axis] // max(place.outer, 1)
    if axis < 0 or not block or before[axis] % block:
        return [None]
    return [Place(axis, before[axis] // block, place.inner)]


def _repeat(step: Step, stack: Tensor) -> Tensor:
    # along an axis of size 1, or one that is expanded itself, copies are made by expanding
    filled = _filled(step, stack)
    by = [1, *read_saved(step.node, "repeats")]
    for axis in range(1, filled.ndim):
        if filled.shape[axis] == 1 or (filled.shape[axis] > 1 and filled.stride(axis) == 0):
            filled, by[axis] = filled.narrow(axis, 0, 1), 1
    return (filled.repeat(by) if max(by) > 1 or min(by) < 1 else filled).expand(len(stack), *step.shape())


def _both(step: Step, ndim: int) -> tuple[int, int]:
    return wrapped(read_saved(step.node, "dim1"), ndim), wrapped(read_saved(step.node, "dim2"), ndim)


def signed(number: int) -> int:
    """A saved number that may be negative: nodes hand it out as an unsigned one.

    >>> signed(18446744073709551614), signed(3)
    (-2, 3)
    """
    return number - 2**64 if number >= 2**63 else number


def _others(ndim: int, pair: tuple[int, int]) -> list[int]:
    return [axis for axis in range(ndim) if axis not in pair]


def _of_diagonal(step: Step, axis: int) -> int | None:
    ndim = len(step.shape()) + 1
    others = _others(ndim, _both(step, ndim))
    return others[axis] if axis < len(others) else None


def _diagonal(step: Step, stack: Tensor) -> Tensor:
    first, second = _both(step, stack.ndim - 1)
    return stack.diagonal(signed(read_saved(step.node, "offset")), first + 1, second + 1)


def _into_diagonal(step: Step, axis: int) -> int | None:
    ndim = len(step.shape())
    others = _others(ndim, _both(step, ndim))
    return others.index(axis) if axis in others else None


def _diag_embed(step: Step, stack: Tensor) -> Tensor:
    first, second = _both(step, stack.ndim)
    return torch.diag_embed(stack, signed(read_saved(step.node, "offset")), first + 1, second + 1)


def _diagonal_scatter(step: Step, stack: Tensor) -> Tensor:
    first, second = _both(step, stack.ndim)
    empty = stack.new_zeros(len(stack), *step.shape())
    return torch.diagonal_scatter(empty, stack, signed(read_saved(step.node, "offset")), first + 1, second + 1)


def _of_windows(step: Step, axis: int) -> int | None:
    last = len(step.shape()) - 1
    return None if axis in (wrapped(read_saved(step.node, "dimension"), last), last) else axis


def _unfold(step: Step, stack: Tensor) -> Tensor:
    dim = wrapped(read_saved(step.node, "dimension"), stack.ndim - 1)
    return stack.unfold(dim + 1, read_saved(step.node, "size"), read_saved(step.node, "step"))


def _before_image(step: Step, axis: int) -> int | None:
    return axis if axis < len(step.shape()) - 3 else None


def _pixel_shuffle(step: Step, stack: Tensor) -> Tensor:
    return torch.pixel_shuffle(stack, read_saved(step.node, "upscale_factor"))


def _pixel_unshuffle(step: Step, stack: Tensor) -> Tensor:
    return torch.pixel_unshuffle(stack, read_saved(step.node, "downscale_factor"))


def _channel_shuffle(step: Step, stack: Tensor) -> Tensor:
    count, groups = stack.shape[2], read_saved(step.node, "groups")
    split = stack.reshape(*stack.shape[:2], groups, count // groups, *stack.shape[3:])
    return split.transpose(2, 3).reshape(stack.shape)


def _tril(step: Step, stack: Tensor) -> Tensor:
    return stack.tril(signed(read_saved(step.node, "diagonal")))


def _triu(step: Step, stack: Tensor) -> Tensor:
    return stack.triu(signed(read_saved(step.node, "diagonal")))


RESHAPED = rearranged(_reshaped, _reshape)
TRANSPOSED = rearranged(along(_transposed), _transpose)
MATRIX_TRANSPOSED = rearranged(along(lambda step, axis: 1 - axis if len(step.shape()) == 2 else axis), _t)

RULES = {
    "ViewBackward0": RESHAPED,
    "UnsafeViewBackward0": RESHAPED,
    "ReshapeAliasBackward0": RESHAPED,
    "UnsqueezeBackward0": RESHAPED,
    "UnsqueezeBackward1": RESHAPED,
    "SqueezeBackward0": RESHAPED,
    "SqueezeBackward1": RESHAPED,
    "SqueezeBackward2": RESHAPED,
    "SqueezeBackward3": RESHAPED,
    "SqueezeBackward4": RESHAPED,
    "SqueezeBackward5": RESHAPED,
    "PermuteBackward0": rearranged(along(lambda step, axis: _permutation(step)[axis]), _permute),
    "TransposeBackward0": TRANSPOSED,
    "TransposeBackward1": TRANSPOSED,
    "TBackward0": MATRIX_TRANSPOSED,
    "TBackward1": MATRIX_TRANSPOSED,
    "ExpandBackward0": rearranged(same_place, _expand),
    "RepeatBackward0": rearranged(_repeated, _repeat),
    "DiagonalBackward0": rearranged(along(_of_diagonal), _diagonal),
    "DiagEmbedBackward0": rearranged(along(_into_diagonal), _diag_embed),
    "DiagonalBackwardBackward0": rearranged(along(_into_diagonal), _diagonal_scatter),
    "UnfoldBackward0": rearranged(along(_of_windows), _unfold),
    "PixelShuffleBackward0": Rule(along(_before_image), linear_push(_pixel_shuffle), linear_spread(_pixel_shuffle)),
    "PixelUnshuffleBackward0": Rule(
        along(_before_image), linear_push(_pixel_unshuffle), linear_spread(_pixel_unshuffle)
    ),
    "ChannelShuffleBackward0": rearranged(along(lambda step, axis: None if axis == 1 else axis), _channel_shuffle),
    # a pattern is of one sample: which row or column of a batch axis it stands in isn't known, so no entry is left out
    "TrilBackward0": Rule(same_place, linear_push(_tril), joined),
    "TriuBackward0": Rule(same_place, linear_push(_triu), joined),
}
