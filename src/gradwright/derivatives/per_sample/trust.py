"""Is what was made the gradient of every sample? One vjp with a random cotangent tells."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradwright.derivatives.graph.lines import HOW_TO_LEARN_LINES, line_of
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.nodes import Place
from gradwright.derivatives.per_sample.asked import Asked
from gradwright.derivatives.per_sample.captured import capture_cotangents, of_every_sample, vjp
from gradwright.derivatives.per_sample.followed import Followed, Key
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.leaf_derivatives import derivatives_agree
from gradwright.derivatives.samples.meeting import Meeting, find_meeting, wide
from gradwright.derivatives.samples.probe import CLOSE
from gradwright.errors import CoupledBatch

#: Of the random cotangent: normal numbers, between which no relation holds (their sum is not 0).
SEED = 0x5A3D


@dataclass(frozen=True)
class Seen:
    """What one vjp showed. ``worst``: the largest difference, over the size of its terms, at the parameter ``name``.

    ``meeting``: two samples that meet.  ``derivative``: the values agree, and their derivatives do not.
    """

    held: bool
    worst: float
    name: str
    meeting: Meeting | None = None
    derivative: bool = False


def look(request: Request, asked: Asked, places: dict[Key, Place], made: list[Tensor], bypassed: bool) -> Seen:
    """Compare one vjp of a random cotangent c with sum_b c[b] G[b], for every parameter.

    Both are linear in c, so for a c drawn at random they agree only where G[b] is right for every b, whatever was
    overlooked: samples that meet, a hook, a backward that is not linear.  A difference gets a second look, which is
    exact, at the cotangents where the parameters come in: NOTE [Splits of the batch], samples/meeting.py.  Where no
    samples meet there it is rounding (a bias before a normalisation has a gradient of nothing else), or a backward
    that bends each sample's cotangent by itself, and G is what a backward of each loss alone gives.
    ``bypassed``: Python speaks, in a hook perhaps, and it may be behind those places, or change what a step gives to a
    parameter only; then a difference is not explained by a second look.
    With create_graph the derivatives have to agree as well: NOTE [A gate that is zero now], samples/probe.py.
    """
    c = random_like(asked.losses, SEED)
    pulled = vjp([asked.losses], [c], [target.edge for target in asked.targets], request.create_graph)
    seen = [torch.zeros_like(part[0]) if one is None else one for one, part in zip(pulled, made, strict=True)]
    told = [torch.tensordot(c.to(part.dtype), part, 1) for part in made]
    offs = [_off(c, *three) for three in zip(seen, told, made, strict=True)]
    worst = max(range(len(offs)), key=offs.__getitem__)
    name, off = asked.names[worst], offs[worst]
    kind = request.way.coarsest
    if off > CLOSE[kind] * torch.finfo(kind).eps:
        meeting = find_meeting(c, _arrived(asked, places, c), lambda given: _arrived(asked, places, given))
        if meeting is not None or bypassed:
            return Seen(False, off, name, meeting)
    if request.create_graph:
        flat = [torch.cat([part.reshape(-1) for part in parts]) for parts in (seen, told)]
        if not derivatives_agree(request, *flat):
            return Seen(False, off, name, derivative=True)
    return Seen(True, off, name)


def _arrived(asked: Asked, places: dict[Key, Place], given: Tensor) -> Tensor:
    """All cotangents of each sample where parameters come in, in one row: [B, *]."""
    return of_every_sample(capture_cotangents(asked, places, given, False), places, asked.samples)


def _off(c: Tensor, seen: Tensor, told: Tensor, part: Tensor) -> float:
    """The difference over |c| |G|, the size of the terms; infinite where only one of the two is finite."""
    seen, told, part = seen.detach(), told.detach(), part.detach()
    if not seen.numel():
        return 0.0
    here, there = seen.isfinite(), told.isfinite()
    if not torch.equal(here, there):
        return float("inf")
    gap = float(torch.where(here, seen.to(wide(seen)) - told.to(wide(told)), 0).abs().max())
    norms = torch.linalg.vector_norm(part, dim=0, dtype=wide(part))
    scale = float(torch.where(here, norms, 0).max() * torch.linalg.vector_norm(c, dtype=wide(c)))
    if not gap:
        return 0.0
    return gap / scale if scale else float("inf")


def coupled_error(asked: Asked, followed: Followed, seen: Seen) -> CoupledBatch:
    """The error that says what was seen, where samples may meet, and what to do."""
    if seen.meeting is not None:
        found = f"sample {seen.meeting.giver} reaches sample {seen.meeting.receiver}"
    else:
        found = "their derivatives meet, although their values don't now (a gate that is zero, for one)"
    names = ", ".join(dict.fromkeys(step.name for step in followed.open)) or "a hook of a tensor or of a node"
    lines = [line for step in followed.open if (line := line_of(step.node))] or [HOW_TO_LEARN_LINES]
    return CoupledBatch(
        f"the samples of this batch are not independent: {found}. One vjp with a random cotangent differs from what "
        f"the gradients of the samples say by {seen.worst:.1e} of their size, most at {seen.name}.\n"
        f"  where  between losses {list(asked.losses.shape)} and the parameters, at {names}\n"
        f"         {lines[0]}\n{WHAT_TO_DO}"
    )


def meeting_error(asked: Asked, step: Step) -> CoupledBatch:
    """The error for samples that the graph shows to meet."""
    return CoupledBatch(
        f"the samples of this batch are not independent: what {step.name} put out, {list(step.shape())}, is used "
        "sample by sample, and also by all samples together (its mean over the batch, for one), so that one sample's "
        f"loss depends on the others.\n"
        f"  where  between losses {list(asked.losses.shape)} and the parameters, at {step.name}\n"
        f"         {line_of(step.node) or HOW_TO_LEARN_LINES}\n{WHAT_TO_DO}"
    )


WHAT_TO_DO = (
    '  do     batch="coupled" is exact (one backward per sample, batched); batch="assume_independent" takes the quick '
    "way and does not look; or make the samples independent (BatchNorm: model.eval(), or GroupNorm)"
)
