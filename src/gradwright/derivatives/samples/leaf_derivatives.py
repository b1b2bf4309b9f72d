"""Do two ways to make the same rows have the same derivatives? Asked of every leaf they depend on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.meeting import SeenFrom
from gradwright.ground.graphs import graph_of

#: Largest relative difference of a leaf's gradient that is taken for rounding, in epsilons; beyond, rounding is
#: measured, and a difference may be ROUNDING times that.
CLOSE, ROUNDING = 1e4, 64


def derivatives_agree(request: Request, seen: Tensor, told: Tensor) -> bool:
    """Whether the gradients of <W, seen> and <W, told>, W random, are the same at every leaf, and at the target.

    Cost: a backward through ``seen`` and one through ``told``; twice that where they differ by more than rounding.
    The graphs are kept; ``.grad`` is not touched.
    """
    leaves = _leaves(seen, told, target=request.target.edge)
    if not leaves:
        return True
    weight = random_like(seen, 0xD1FF)
    with torch.autocast(request.output.device.type, enabled=False):
        first, second = (_gradients(rows, weight, leaves) for rows in (seen, told))
        eps = torch.finfo(request.way.coarsest).eps
        if all(_differ(one, other) <= CLOSE * eps for one, other in zip(first, second, strict=True)):
            return True
        again = [[third / 3 for third in _gradients(rows, 3 * weight, leaves)] for rows in (seen, told)]
    return all(
        _largest(one - other) <= ROUNDING * (_largest(one - one_again) + _largest(other - other_again))
        for one, other, one_again, other_again in zip(first, second, *again, strict=True)
    )


def derivatives_apart(request: Request, cotangent: Tensor, seen_from: SeenFrom) -> bool:
    """Whether the rows of silent samples have no derivative at all: NOTE [Splits of the batch], one order higher.

    For a backward that is not linear, whose rows can't be compared with what a Jacobian says.  Cost: 2 ceil(log2 B)
    vjps, and as many backwards through them.
    """
    numbers = torch.arange(len(cotangent), device=cotangent.device)
    for digit in range((len(cotangent) - 1).bit_length()):
        for side in (0, 1):
            silent = (numbers >> digit) % 2 != side
            rows = seen_from(cotangent.masked_fill(silent.reshape(-1, *[1] * (cotangent.ndim - 1)), 0))
            rows = torch.where(silent[:, None], rows, 0)
            leaves = _leaves(rows, target=request.target.edge)
            if any(_largest(one) for one in _gradients(rows, random_like(rows, 0xD1FF), leaves)):
                return False
    return True


def _leaves(*rows: Tensor, target: GradientEdge) -> list[GradientEdge]:
    """Every leaf behind ``rows``, and the target where it is one of the values they depend on."""
    edges = []
    for node in graph_of(rows):
        if hasattr(node, "variable"):
            edges.append(GradientEdge(node, 0))
        elif node is target.node:
            edges.append(target)
    return edges


def _gradients(rows: Tensor, weight: Tensor, leaves: Sequence[GradientEdge]) -> list[Tensor]:
    if not (rows.requires_grad and leaves):
        return [torch.zeros((), device=rows.device) for _ in leaves]
    made = torch.autograd.grad(rows, leaves, weight.to(rows.dtype), retain_graph=True, allow_unused=True)
    return [rows.new_zeros(()) if one is None else one.to_dense() if one.is_sparse else one for one in made]


def _differ(one: Tensor, other: Tensor) -> float:
    """Their difference over the larger of them; 0 where both are zero, infinite or NaN."""
    size = max(_largest(one), _largest(other))
    return _largest(one - other) / size if size else 0.0


def _largest(values: Tensor) -> float:
    return float(values.abs().nan_to_num(0.0, 0.0, 0.0).max()) if values.numel() else 0.0
