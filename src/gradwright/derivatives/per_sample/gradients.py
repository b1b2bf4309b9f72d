"""``gw.per_sample_gradients``: the gradient of every sample's loss, of a graph that already exists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.engine import hooks_ever, hooks_heard, told
from gradwright.derivatives.graph.options import Batch, read_batch
from gradwright.derivatives.graph.recording import recording, refuse_inference
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.target import Target
from gradwright.derivatives.graph.way import Way
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.per_sample.alone import pulled_alone
from gradwright.derivatives.per_sample.asked import Asked, Parameters, PerSample, read_asked
from gradwright.derivatives.per_sample.behind import WRITTEN_OUT, Gathered
from gradwright.derivatives.per_sample.captured import capture_cotangents, own_part, sources_of, vjp
from gradwright.derivatives.per_sample.followed import Followed, Key, follow
from gradwright.derivatives.per_sample.room import Room, read_room
from gradwright.derivatives.per_sample.trust import coupled_error, look, meeting_error
from gradwright.derivatives.second_order import require_twice
from gradwright.ground.torch_versions.nodes import output_metadata


@without_unreadable_rules
def per_sample_gradients(
    losses: Tensor | Callable[[], Tensor],
    params: Parameters,
    batch: Batch = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
    chunk_size: int | None = None,
) -> PerSample:
    """d losses[b] / d parameter for every sample b at once: [B, *parameter] for each parameter.

    It works on the graph that the forward made, with no hook on a module and no second forward: one backward goes to
    where the parameters meet the batch, and the saved tensors there make each sample's part (Goodfellow 2015,
    "Efficient per-example gradient computations"; NOTE [Boundary], boundary/rule.py). Where a step is not known, one
    backward for each sample, several at a time under ``torch.func.vmap``.

    ``losses``: [B], one loss for each sample (``reduction="none"``), or a function of nothing that makes them.
    ``params``: a tensor, a list, tuple or dict of them, or a module: then those of its parameters that require
    gradients, by name.  Zeros for a parameter that no loss depends on.
    ``batch``: what to do about samples that meet (BatchNorm in training, a mean over the batch): "auto" raises
    CoupledBatch, "coupled" gives exactly d losses[b] / d parameter by one backward for each sample,
    "assume_independent" does not look.
    ``create_graph``: the result can be differentiated again.
    ``max_bytes``: allocate no more at a time, results included.  ``chunk_size``: how many samples' backwards go
    together where each needs its own.

    Result: the structure of ``params``, each [B, *parameter] in the parameter's dtype.
    Cost: one backward to where parameters come in, one product for each, and writing the result, B times the
    parameters: 1.6 to 4 plain backwards (benchmarks/how_fast_are_per_sample_gradients.py).  One backward more where a
    step is unknown, or Python speaks (a hook, a custom Function); a small part of one where a hook was ever registered
    in this process.
    Raises: UsageError, DerivativeError (freed graph, changed in place), CoupledBatch, NoSecondDerivative.

    >>> layer = torch.nn.Linear(3, 2)
    >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> per_sample_gradients(layer(x).sum(1), layer)["weight"].tolist()
    [[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0], [4.0, 5.0, 6.0]]]
    """
    refuse_inference(create_graph)
    asked, batch = read_asked(losses, params), read_batch(batch)
    room = read_room(asked, max_bytes, chunk_size)
    if asked.samples == 0:
        made = [_zeros(asked, target) for target in asked.targets]
    else:
        with (
            told(asked.losses, asked.targets[0]),
            torch.autocast(asked.losses.device.type, enabled=False),
            recording(create_graph),
        ):
            made = _made(asked, batch, create_graph, room)
    return asked.restore(_apart_in_memory([made[place] for place in asked.places]))


def _zeros(asked: Asked, target: Target) -> Tensor:
    return torch.zeros(asked.samples, *target.shape, dtype=target.dtype, device=target.device)


def _made(asked: Asked, batch: Batch, create_graph: bool, room: Room) -> list[Tensor]:
    followed = follow(asked)
    doubting = batch == "auto" and asked.samples > 1
    if followed.meeting is not None and doubting:
        raise meeting_error(asked, followed.meeting)
    unknown = followed.lost is not None or followed.meeting is not None
    if batch == "coupled" or unknown or not room.fits(followed):
        return _one_by_one(asked, followed, create_graph, room)
    steps = [step for step in followed.steps.values() if step.name not in WRITTEN_OUT]
    way = Way(asked.losses, asked.targets[0], tuple(steps), True)
    if create_graph:
        require_twice(way)
    places = sources_of(followed)
    with hooks_heard() as before:
        captured = capture_cotangents(asked, places, torch.ones_like(asked.losses), create_graph)
    heard = not before.silent
    bypassed = heard or _speaks_behind(asked, followed, captured)
    made = _from_saved(asked, followed, captured, create_graph, room)
    doubted = doubting and (heard or bool(followed.open))
    if not doubted and not bypassed:
        return made
    request = Request(asked.losses, asked.targets[0], None, way, create_graph)
    seen = look(request, asked, places, made, bypassed)
    if seen.held:
        return made
    if doubted and (seen.meeting is not None or seen.derivative):
        raise coupled_error(asked, followed, seen)
    return _one_by_one(asked, followed, create_graph, room)


def _from_saved(
    asked: Asked, followed: Followed, captured: dict[Key, Tensor | None], create_graph: bool, room: Room
) -> list[Tensor]:
    """What the rules of the boundary make of the cotangents there, brought back to the parameters.

    Each cotangent is let go as soon as it was used: ``captured`` is empty afterwards.
    """
    gathered = Gathered(asked, followed.steps)
    for key, place in followed.owned.items():
        owned = captured[key]
        if owned is not None:
            gathered.record(key, own_part(owned, place, asked.samples))
    for source, several in groupby(followed.crossings, key=lambda crossing: crossing.source):
        cotangent = captured.pop(source)
        if cotangent is not None:
            for crossing in several:
                gathered.add(crossing.into.key, crossing.make(cotangent))
        del cotangent
    captured.clear()
    gathered.finish(room.chunk, create_graph)
    return [
        _zeros(asked, target)
        if (part := gathered.found.get((target.edge.node, target.edge.output_nr))) is None
        else part
        for target in asked.targets
    ]


def _one_by_one(asked: Asked, followed: Followed, create_graph: bool, room: Room) -> list[Tensor]:
    """A backward for each sample: exact, whatever the samples do to one another."""
    steps = list(followed.steps.values())
    if create_graph:
        require_twice(Way(asked.losses, asked.targets[0], tuple(steps), True))

    def one_hots(begin: int, end: int) -> list[Tensor]:
        eye = torch.zeros(end - begin, asked.samples, dtype=asked.losses.dtype, device=asked.losses.device)
        eye[torch.arange(end - begin), torch.arange(begin, end)] = 1
        return [eye]

    return pulled_alone([asked.losses], one_hots, asked.samples, asked.targets, steps, room.chunk(steps), create_graph)


def _speaks_behind(asked: Asked, followed: Followed, captured: dict[Key, Tensor | None]) -> bool:
    """Whether something written in Python speaks behind the boundary, where the rules read saved tensors instead.

    The engine runs what was not run for the cotangents: the steps that only parameters lie behind, and, with zeros for
    cotangents, what lies between the shared values and the parameters.
    Cost: nothing where no hook was ever registered; otherwise a small part of a plain backward.
    """
    if hooks_ever() == 0 or not followed.crossings:
        return False
    given: dict[Key, Tensor] = {}
    for crossing in followed.crossings:
        node, number = crossing.into.key
        seen = output_metadata(node)[number]
        given[node, number] = torch.zeros((), dtype=seen.dtype, device=seen.device).expand(tuple(seen.shape))
        cotangent = captured[crossing.source]
        if crossing.step.node not in followed.through and cotangent is not None:
            given[crossing.source] = cotangent
    edges = [GradientEdge(node, number, None) for node, number in given]
    with torch.no_grad(), hooks_heard() as behind:
        vjp(edges, list(given.values()), [target.edge for target in asked.targets], False)
    return not behind.silent


def _apart_in_memory(made: list[Tensor]) -> list[Tensor]:
    """Each result in memory of its own: to change one in place changes no other."""
    seen: set[int] = set()
    found = []
    for tensor in made:
        own = tensor.untyped_storage()
        if own.data_ptr() in seen or own.nbytes() != tensor.nbytes or not tensor.is_contiguous():
            tensor = tensor.contiguous() if not tensor.is_contiguous() else tensor.clone()
            own = tensor.untyped_storage()
        seen.add(own.data_ptr())
        found.append(tensor)
    return found
