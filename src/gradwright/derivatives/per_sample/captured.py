"""One backward from the losses to every place where something shared comes in: the cotangents there, and no more."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.nodes import Place
from gradwright.derivatives.per_sample.asked import Asked
from gradwright.derivatives.per_sample.boundary.rule import apart, together
from gradwright.derivatives.per_sample.followed import Followed, Key
from gradwright.ground.torch_versions.engine import run_engine


def vjp(
    sources: Sequence[Tensor | GradientEdge], cotangents: Sequence[Tensor], edges: Sequence[GradientEdge], create: bool
) -> tuple[Tensor | None, ...]:
    """The engine, once; the graph is kept.  None where nothing depends on an edge; sparse gradients come dense."""
    made: tuple[Tensor | None, ...] = run_engine(
        tuple(sources), tuple(cotangents), True, create, tuple(edges), True, accumulate_grad=False
    )
    return tuple(one.to_dense() if one is not None and one.is_sparse else one for one in made)


def sources_of(followed: Followed) -> dict[Key, Place]:
    """The values whose cotangents are needed, and where their batch lies."""
    places = {crossing.source: crossing.place for crossing in followed.crossings}
    return places | followed.owned


def capture_cotangents(
    asked: Asked, places: dict[Key, Place], cotangent: Tensor, create_graph: bool
) -> dict[Key, Tensor | None]:
    """Cotangents of the sources, for one backward of ``cotangent`` ([B]): the weights' own gradients are not made."""
    if not places:
        return {}
    edges = [GradientEdge(node, number, None) for node, number in places]
    return dict(zip(places, vjp([asked.losses], [cotangent], edges, create_graph), strict=True))


def of_every_sample(captured: dict[Key, Tensor | None], places: dict[Key, Place], samples: int) -> Tensor:
    """All cotangents of each sample in one row: [B, *]."""
    found = [apart(g, places[key], samples).reshape(samples, -1) for key, g in captured.items() if g is not None]
    return torch.cat(found, 1)


def own_part(cotangent: Tensor, place: Place, samples: int) -> Tensor:
    """The gradient of a parameter of which each sample has its own part: zero elsewhere.  [B, *parameter].

    >>> own_part(torch.tensor([5.0, 7.0]), Place(0), 2).tolist()
    [[5.0, 0.0], [0.0, 7.0]]
    """
    parts = apart(cotangent, place, samples)
    eye = torch.eye(samples, dtype=torch.bool, device=parts.device)
    alone = torch.where(eye.reshape(samples, samples, *(1,) * (parts.ndim - 1)), parts, 0)
    return torch.func.vmap(lambda one: together(one, place))(alone)
