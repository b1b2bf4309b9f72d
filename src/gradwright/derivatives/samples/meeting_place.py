"""The step where samples meet, for an error message: each suspect is run alone, with one sample's cotangent."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.derivatives.graph.lines import HOW_TO_LEARN_LINES, line_of
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import Into, Step
from gradwright.derivatives.nodes import Place
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.meeting import Meeting
from gradwright.derivatives.samples.structure import Structure
from gradwright.ground.torch_versions.nodes import forward_class, output_metadata


def where_samples_meet(request: Request, structure: Structure, meeting: Meeting | None) -> str:
    """ ", at NAME" for the step nearest to the output that lets one sample's cotangent into another's, and its line.

    Where no step does so on its own, the steps that nothing is known of, or a hook where one may be.
    """
    giver = meeting.giver if meeting is not None else 0
    places = dict(structure.places)
    for step in request.way.steps:
        if step not in structure.open:
            continue
        for number, place in [(key[1], place) for key, place in places.items() if key[0] is step.node]:
            for into, arrived in _through(step, number, place, giver, request.samples):
                if arrived is None:
                    return _told(step, into, request)
                places.setdefault(into.key, arrived)
    unknown = ", ".join(dict.fromkeys(step.name for step in structure.open))
    if unknown:
        return f"; nothing is known of {unknown}"
    return ", in a hook of a tensor or of a node" if hooks_ever() else ""


def _told(step: Step, into: Into, request: Request) -> str:
    """Where ``step`` gives all samples a value without a batch, the step that made this value of a batch."""
    by_node = {other.node: other for other in request.way.steps}
    meets, given = step, into
    while not _has_room(given, request.samples) and given.node in by_node:
        meets = by_node[given.node]
        given = next(inner for _, inner in meets.leading)
    gives = "" if meets is step else f", whose result {step.name} gives to all samples"
    return f", at {meets.name}{gives}\n         {line_of(meets.node) or HOW_TO_LEARN_LINES}"


def _has_room(into: Into, samples: int) -> bool:
    """Whether a batch can lie in this value."""
    return any(size and size % samples == 0 for size in into.shape)


def _through(step: Step, number: int, place: Place, giver: int, samples: int) -> Iterator[tuple[Into, Place | None]]:
    """Where one sample's cotangent comes out of a step: its place in each input; None where others get something of it,
    or where its part hangs on what the others' cotangents are.

    An input that shows nothing (zeros, or a node that can't be run on its own) is left out.
    """
    if step.shape(number)[place.axis] != place.outer * samples * place.inner:
        return
    cotangent = _cotangent(step, number)
    with torch.no_grad():
        try:
            alone = _run(step, number, _only_sample(cotangent, place, giver, samples))
            together = _run(step, number, cotangent)
        except (RuntimeError, TypeError, ValueError):
            return
    for index, into in step.leading:
        arrived, full = alone[index], together[index]
        if arrived is None or full is None or not bool(arrived.isfinite().all()) or not bool(arrived.any()):
            continue
        fitting = (there for there in _places(arrived.shape, samples) if _only(arrived, there, giver, samples))
        found = next(fitting, None)
        if found is not None:
            own = _only_sample(full, found, giver, samples)
            if float((own - arrived).abs().max()) > 0.01 * float(arrived.abs().max()):
                found = None
        yield into, found


def _cotangent(step: Step, number: int) -> Tensor:
    seen = output_metadata(step.node)[number]
    return random_like(torch.empty(seen.shape, dtype=seen.dtype, device=seen.device), 0x9E37)


def _only_sample(tensor: Tensor, place: Place, giver: int, samples: int) -> Tensor:
    """Zeros for all samples but one."""
    split = _split(tensor, place, samples)
    kept = torch.zeros_like(split)
    kept.select(place.axis + 1, giver).copy_(split.select(place.axis + 1, giver))
    return kept.reshape(tensor.shape)


def _run(step: Step, number: int, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """The backward of this one node: no engine, no hooks, nothing kept or freed."""
    node = step.node
    if forward_class(node) is None:
        given: list[Tensor | None] = [None] * len(output_metadata(node))
        given[number] = cotangent
        made = node(*given)
    else:  # a custom Function gets zeros where nothing arrives, as the engine would give it
        zeros = [torch.zeros(seen.shape, dtype=seen.dtype, device=seen.device) for seen in output_metadata(node)]
        zeros[number] = cotangent
        made = node.apply(*zeros)
    return tuple(
        one
        if one is None or not into.leads
        else one.sum_to_size(into.shape)  # as the engine does with what is broadcast
        for one, into in zip(made if isinstance(made, tuple) else (made,), step.inputs, strict=True)
    )


def _places(shape: torch.Size, samples: int) -> Iterator[Place]:
    """Where a batch may lie in such a shape."""
    for axis, size in enumerate(shape):
        if size % samples == 0:
            rest = size // samples
            yield from (Place(axis, outer, rest // outer) for outer in range(1, rest + 1) if rest % outer == 0)


def _only(arrived: Tensor, place: Place, giver: int, samples: int) -> bool:
    """Whether nothing but the giver's part is other than zero."""
    return torch.equal(_only_sample(arrived, place, giver, samples), arrived)


def _split(tensor: Tensor, place: Place, samples: int) -> Tensor:
    """The axis of the batch as three: outer, B, inner."""
    shape = tensor.shape
    return tensor.reshape(*shape[: place.axis], place.outer, samples, place.inner, *shape[place.axis + 1 :])
