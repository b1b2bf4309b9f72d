"""Parts of an axis: slice, select, split, unbind, cat, stack, pad, roll, flip.

Along another axis than the batch's they leave samples alone. Along the batch's own axis only whole blocks are known to:
where the axis holds several rounds of all samples ([S * B], `outer` S), a part that begins and ends between two rounds
is itself one or more rounds. So d(cat([real, fake])).chunk(2) keeps sample b of both halves with sample b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Size, Tensor

from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes.algebra import linear_push, linear_spread, moved, wrapped
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.derivatives.nodes.shapes import along, rearranged, signed
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved


def _whole(into: Into) -> Size:
    """The shape of an input with the whole batch in it, also where a pattern of one sample is asked for."""
    return Size(output_metadata(into.node)[into.number].shape)


def _round(shape: Size, place: Place) -> int:
    """How many entries along the batch's axis hold each sample once: B * inner."""
    return shape[place.axis] // max(place.outer, 1)


def _window(place: Place, block: int, start: int, size: int) -> Place | None:
    """Where the batch lies in ``size`` entries along its axis that begin ``start`` entries before or behind."""
    if not block or not size or start % block or size % block:
        return None
    return Place(place.axis, size // block, place.inner)


def _bounds(step: Step, size: int) -> tuple[int, int, int]:
    start, end = (
        None if at is None else signed(at) for at in (read_saved(step.node, "start"), read_saved(step.node, "end"))
    )
    return slice(start, end, read_saved(step.node, "step")).indices(size)


def _dim(step: Step, ndim: int) -> int:
    return wrapped(read_saved(step.node, "dim"), ndim)


# ---- one part of one input


def _sliced(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    into = step.inputs[0].shape
    if place.axis != _dim(step, len(into)):
        return [place]
    start, _, stride = _bounds(step, into[place.axis])
    return [_window(place, _round(step.shape(), place), start, into[place.axis]) if stride == 1 else None]


def _slice(step: Step, stack: Tensor) -> Tensor:
    whole = _whole(step.inputs[0])
    dim = _dim(step, len(whole))
    start, stop, stride = _bounds(step, whole[dim])
    if stack.shape[dim + 1] != whole[dim]:  # one sample's share of rounds
        start, stop = (at * stack.shape[dim + 1] // whole[dim] for at in (start, stop))
    return stack[(slice(None),) * (dim + 1) + (slice(start, stop, stride),)]


def _behind(step: Step, axis: int) -> int:
    return axis + (axis >= _dim(step, len(step.shape()) + 1))


def _select(step: Step, stack: Tensor) -> Tensor:
    return stack.select(_dim(step, stack.ndim - 1) + 1, signed(read_saved(step.node, "index")))


# ---- a part put into zeros: what differentiating a backward of the above records


def _of_filled(step: Step, axis: int) -> int | None:
    dim = _dim(step, len(step.shape()))
    return None if axis == dim else axis - (axis > dim)


def _select_scatter(step: Step, stack: Tensor) -> Tensor:
    empty = stack.new_zeros(len(stack), *step.shape())
    return torch.select_scatter(empty, stack, _dim(step, stack.ndim) + 1, signed(read_saved(step.node, "index")))


def _unsliced(step: Step, axis: int) -> int | None:
    return None if axis == _dim(step, len(step.shape())) else axis


def _slice_scatter(step: Step, stack: Tensor) -> Tensor:
    dim = _dim(step, stack.ndim - 1)
    empty = stack.new_zeros(len(stack), *step.shape())
    return torch.slice_scatter(empty, stack, dim + 1, *_bounds(step, step.shape()[dim]))


# ---- all parts of one input


def _sizes(step: Step, dim: int) -> list[int]:
    return [seen.shape[dim] for seen in output_metadata(step.node)]


def _split_place(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    into = step.inputs[0].shape
    dim = _dim(step, len(into))
    if place.axis != dim:
        return [place]
    start = sum(_sizes(step, dim)[:number])
    return [_window(place, _round(step.shape(number), place), start, into[dim])]


def _split(step: Step, stack: Tensor) -> Sequence[Tensor]:
    whole = _whole(step.inputs[0])
    dim = _dim(step, len(whole))
    sizes = _sizes(step, dim)
    if stack.shape[dim + 1] != whole[dim]:
        sizes = [size * stack.shape[dim + 1] // whole[dim] for size in sizes]
    return torch.split(stack, sizes, dim + 1)


def _unbound(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    dim = _dim(step, len(step.inputs[0].shape))
    return [moved(place, place.axis + (place.axis >= dim))]


def _unbind(step: Step, stack: Tensor) -> Sequence[Tensor]:
    return stack.unbind(_dim(step, stack.ndim - 1) + 1)


def _parts_push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    (jet,) = (jet for jet in jets if jet is not None)
    apply = _unbind if step.name.startswith("Unbind") else _split
    firsts = apply(step, jet.first)
    if jet.second is None:
        return {number: Jet(first) for number, first in enumerate(firsts)}
    seconds = apply(step, jet.second.unsqueeze(0))
    return {
        number: Jet(first, second.squeeze(0))
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True))
    }


def _parts_spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    (into,) = (into for into in reach if into is not None)
    return dict(enumerate((_unbind if step.name.startswith("Unbind") else _split)(step, into)))


# ---- padding and turning


def _pads(step: Step, ndim: int) -> dict[int, tuple[int, int]]:
    pads = [signed(pad) for pad in read_saved(step.node, "pad")]
    return {ndim - 1 - i: (pads[2 * i], pads[2 * i + 1]) for i in range(len(pads) // 2)}


def _unpadded(step: Step, axis: int) -> int | None:
    return axis if _pads(step, len(step.shape())).get(axis, (0, 0)) == (0, 0) else None


def _constant_pad(step: Step, stack: Tensor) -> Tensor:
    return F.pad(stack, [signed(pad) for pad in read_saved(step.node, "pad")])


def _before_pads(step: Step, axis: int) -> int | None:
    return axis if axis < len(step.shape()) - len(read_saved(step.node, "padding")) // 2 else None


def _mirror_pad(step: Step, stack: Tensor) -> Tensor:
    padding = [signed(pad) for pad in read_saved(step.node, "padding")]
    mode = "reflect" if step.name.startswith("Reflection") else "replicate"
    before, last = stack.shape[: -len(padding) // 2], stack.shape[-len(padding) // 2 :]
    padded = F.pad(stack.reshape(before.numel(), 1, *last), padding, mode)  # one channel; no samples are welcome
    return padded.reshape(len(stack), *step.shape())


def _shifts(step: Step, ndim: int) -> dict[int, int]:
    shifts: dict[int, int] = {}
    for dim, shift in zip(read_saved(step.node, "dims"), read_saved(step.node, "shifts"), strict=True):
        axis = wrapped(dim, ndim)
        shifts[axis] = shifts.get(axis, 0) + signed(shift)
    return shifts


def _rolled(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    shape = step.shape()
    if not read_saved(step.node, "dims"):  # all entries, in row-major order
        return [None]
    block = _round(shape, place)
    return [place if block and _shifts(step, len(shape)).get(place.axis, 0) % block == 0 else None]


def _roll(step: Step, stack: Tensor) -> Tensor:
    if not read_saved(step.node, "dims"):
        return stack.flatten(1).roll(signed(read_saved(step.node, "shifts")[0]), 1).reshape(stack.shape)
    whole = _whole(step.inputs[0])
    shifts = _shifts(step, len(whole))
    by = [shift * stack.shape[axis + 1] // max(whole[axis], 1) for axis, shift in shifts.items()]
    return stack.roll(by, [axis + 1 for axis in shifts])


def _turned(step: Step) -> list[int]:
    return [wrapped(dim, len(step.shape())) for dim in read_saved(step.node, "dims")]


def _unturned(step: Step, axis: int) -> int | None:
    return None if axis in _turned(step) else axis


def _flip(step: Step, stack: Tensor) -> Tensor:
    return stack.flip([axis + 1 for axis in _turned(step)])


def _rot90(step: Step, stack: Tensor) -> Tensor:
    return torch.rot90(stack, signed(read_saved(step.node, "k")), [axis + 1 for axis in _turned(step)])


SPLIT = Rule(_split_place, _parts_push, _parts_spread)
MIRROR_PAD = Rule(along(_before_pads), linear_push(_mirror_pad), linear_spread(_mirror_pad))

RULES = {
    "SliceBackward0": rearranged(_sliced, _slice),
    "SelectBackward0": rearranged(along(_behind), _select),
    "SliceBackwardBackward0": rearranged(along(_unsliced), _slice_scatter),
    "SelectBackwardBackward0": rearranged(along(_of_filled), _select_scatter),
    "SplitBackward0": SPLIT,
    "SplitWithSizesBackward0": SPLIT,
    "UnsafeSplitBackward0": SPLIT,
    "UnsafeSplitWithSizesBackward0": SPLIT,
    "UnbindBackward0": Rule(_unbound, _parts_push, _parts_spread),
    "ConstantPadNdBackward0": rearranged(along(_unpadded), _constant_pad),
    "ReflectionPad1DBackward0": MIRROR_PAD,
    "ReflectionPad2DBackward0": MIRROR_PAD,
    "ReflectionPad3DBackward0": MIRROR_PAD,
    "ReplicationPad1DBackward0": MIRROR_PAD,
    "ReplicationPad2DBackward0": MIRROR_PAD,
    "ReplicationPad3DBackward0": MIRROR_PAD,
    "RollBackward0": rearranged(_rolled, _roll),
    "FlipBackward0": rearranged(along(_unturned), _flip),
    "Rot90Backward0": rearranged(along(_unturned), _rot90),
}
