"""Several tensors put together along an axis: cat, stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Size, Tensor

from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes.algebra import moved, wrapped
from gradwright.derivatives.nodes.rule import Jet, Place, Rule
from gradwright.ground.torch_versions.nodes import output_metadata, read_saved


def _dim(step: Step) -> int:
    return wrapped(read_saved(step.node, "dim"), len(step.shape()))


def _starts(step: Step) -> Sequence[int | None]:
    """Where each input begins along the axis; None where that hangs on constants, whose sizes no node keeps."""
    dim = _dim(step)
    total: int = output_metadata(step.node)[0].shape[dim]
    sizes = [
        None if into.node is None else _along(output_metadata(into.node)[into.number].shape, dim)
        for into in step.inputs
    ]
    if sizes.count(None) == 1:  # what the others leave
        rest = total - sum(size for size in sizes if size is not None)
        sizes = [rest if size is None else size for size in sizes]
    starts: list[int | None] = []
    at: int | None = 0
    for size in sizes:
        starts.append(at)
        at = None if at is None or size is None else at + size
    back: int | None = total
    for i in reversed(range(len(sizes))):
        size = sizes[i]
        back = None if back is None or size is None else back - size
        if starts[i] is None:
            starts[i] = back
    return starts


def _along(shape: Sequence[int], dim: int) -> int:
    # torch lets an empty tensor with one axis join any others
    return shape[dim] if dim < len(shape) else 0


def _seen_starts(step: Step) -> Sequence[int]:
    """Where each input begins, also between constants: its share of a cotangent that counts along the axis.

    Counted in digits of base 128, which every floating dtype holds exactly.
    """
    known = _starts(step)
    if all(start is not None for start, into in zip(known, step.inputs, strict=True) if into.leads):
        return [start or 0 for start in known]
    seen = output_metadata(step.node)[0]
    dim, shape = _dim(step), Size(seen.shape)
    index = torch.arange(shape[dim], device=seen.device).reshape(-1, *[1] * (len(shape) - 1 - dim))
    starts = [0] * len(step.inputs)
    with torch.no_grad():
        for digit in range(0, max(shape[dim] - 1, 1).bit_length(), 7):
            shares = step.node((index >> digit & 127).to(seen.dtype).expand(shape))
            shares = shares if isinstance(shares, tuple) else (shares,)
            for place, share in enumerate(shares):
                if share is not None and share.numel():
                    starts[place] += int(share.flatten()[0].real) << digit
    return starts


def _cat_place(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    shape, dim = step.shape(), _dim(step)
    if place.axis != dim:
        return [place if into.leads and len(into.shape) == len(shape) else None for into in step.inputs]
    # along the batch's own axis: whole rounds of samples, see nodes/parts.py
    block = shape[dim] // max(place.outer, 1)
    found: list[Place | None] = []
    for into, start in zip(step.inputs, _starts(step), strict=True):
        size = _along(into.shape, dim) if into.leads else 0
        rounds = start is not None and block and size and start % block == size % block == 0
        found.append(Place(dim, size // block, place.inner) if rounds else None)
    return found


def _joined(step: Step, parts: Sequence[Tensor | None]) -> Tensor:
    """The inputs' parts [Q, *shape], zeros where there is none, put together as the step did."""
    dim, shape = _dim(step), step.shape()
    whole: int = output_metadata(step.node)[0].shape[dim]
    some = next(part for part in parts if part is not None)

    def nothing(size: int) -> Tensor:
        return some.new_zeros(()).expand(len(some), *shape[:dim], size, *shape[dim + 1 :])

    pieces: list[Tensor] = []
    at = 0
    for start, part in zip(_seen_starts(step), parts, strict=True):
        if part is None or part.ndim != len(shape) + 1:
            continue
        begin = start * shape[dim] // max(whole, 1)  # one sample's share, where a pattern is asked for
        pieces += [nothing(begin - at)] if begin > at else []
        pieces.append(part)
        at = begin + part.shape[dim + 1]
    pieces += [nothing(shape[dim] - at)] if at < shape[dim] else []
    return torch.cat(list(_distinct(pieces, dim + 1)), dim + 1).expand(len(some), *shape)


def _distinct(pieces: Sequence[Tensor], along: int) -> Sequence[Tensor]:
    """Pieces that are all expanded along another axis (seeds, over the batch): once, with size 1 there."""
    for axis in range(1, pieces[0].ndim):
        if axis != along and all(piece.shape[axis] > 1 and piece.stride(axis) == 0 for piece in pieces):
            pieces = [piece.narrow(axis, 0, 1) for piece in pieces]
    return pieces


def _stacked_place(step: Step, place: Place, number: int) -> Sequence[Place | None]:
    dim = _dim(step)
    found = None if place.axis == dim else moved(place, place.axis - (place.axis > dim))
    return [found for _ in step.inputs]


def _stacked(step: Step, parts: Sequence[Tensor | None]) -> Tensor:
    some = next(part for part in parts if part is not None)
    nothing = some.new_zeros(()).expand(some.shape)
    pieces = [nothing if part is None else part for part in parts]
    return torch.stack(list(_distinct(pieces, 0)), _dim(step) + 1).expand(len(some), *step.shape())


def _put(step: Step, parts: Sequence[Tensor | None]) -> Tensor:
    return _stacked(step, parts) if step.name == "StackBackward0" else _joined(step, parts)


def _push(step: Step, jets: Sequence[Jet | None], order: int) -> Mapping[int, Jet]:
    first = _put(step, [None if jet is None else jet.first for jet in jets])
    seconds = [None if jet is None or jet.second is None else jet.second.unsqueeze(0) for jet in jets]
    known = any(second is not None for second in seconds)
    return {0: Jet(first, _put(step, seconds).squeeze(0) if known else None)}


def _spread(step: Step, reach: Sequence[Tensor | None]) -> Mapping[int, Tensor]:
    return {0: _put(step, reach)}


RULES = {
    "CatBackward0": Rule(_cat_place, _push, _spread),
    "StackBackward0": Rule(_stacked_place, _push, _spread),
}
