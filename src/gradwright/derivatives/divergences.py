"""``gw.divergence``: the trace of every sample's Jacobian."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import pull
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.methods.estimators import random_signs, read_estimator
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.one_hots import one_hots
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.rows import added, pass_rows
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.planning.chunks import chunk_for_cache
from gradwright.derivatives.samples.trust import Trust, by_sample, read_chunk, real_only
from gradwright.derivatives.second_order import require_twice
from gradwright.errors import UsageError


@without_unreadable_rules
def divergence(
    v: Output,
    wrt: Wrt,
    estimator: Literal["exact", "hutchinson"] = "exact",
    samples: int = 1,
    generator: torch.Generator | None = None,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
    create_graph: bool = False,
    chunk_size: int | None = None,
) -> Tensor:
    """sum over d of d v[b, d] / d wrt[b, d] for every sample b at once, [B].

    ``v``: [B, *D], a vector field (the batch along ``batch_dim``), a tensor of a graph that exists, or a function of
    ``wrt``.  ``wrt``: [B, *D].  Dtype: that of ``wrt``.  Units: v over wrt.  Real numbers only.
    ``estimator``: "exact"; or "hutchinson", the mean of e . (e^T J) over ``samples`` random sign vectors e: unbiased,
    its variance 2 (|J|_F^2 - sum_d J_dd^2) for a symmetric J, over ``samples``. ``generator``: where the signs come
    from; without one from torch's own random numbers, as dropout's do.
    ``batch``: what to do where samples meet: "auto" finds out and raises, "coupled" computes each sample's own,
    "assume_independent" doesn't look. Hutchinson's estimate needs no such care: what leaks from one sample into another
    is multiplied by independent signs and has mean zero.
    ``create_graph``: the result can be differentiated, as in a continuous normalising flow.
    Cost: exact, D forwards along the graph or D backwards, of which only the diagonal is kept; hutchinson, one backward
    for each of ``samples``.
    Raises: CoupledBatch, NoSecondDerivative (with ``create_graph``), DerivativeError, UsageError.
    Source: Hutchinson 1990, "A stochastic estimator of the trace of the influence matrix"; Grathwohl et al. 2019,
    "FFJORD", equation 8.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> divergence(x**2, wrt=x)
    tensor([ 6., 14.])
    """
    v, wrt = evaluated(v, wrt, create_graph)
    request = read_request(v, wrt, batch_dim, create_graph)
    real_only(request, "divergence")
    if request.rows != request.columns or request.target_axis is None:
        raise UsageError(
            f"a divergence needs a v with the shape of wrt, one entry for each; per sample v is {list(request.rows)} "
            f"and wrt is {list(request.columns)}"
        )
    if create_graph:
        require_twice(request.way)
    estimated, trust, chunk = read_estimator(estimator, samples), Trust(request, batch), read_chunk(chunk_size)
    with recording(create_graph):
        return _hutchinson(request, samples, generator) if estimated else _exact(trust, chunk)


def _exact(trust: Trust, chunk: int | None) -> Tensor:
    request = trust.request
    if trust.exact:
        return _trace(one_hots(request, chunk or request.samples))
    if PUSHED.unfit(request) is None:
        trust.listen()
        if not trust.hooked and not trust.open:
            return _pushed(request, chunk or chunk_for_cache(request))
    return _by_rows(trust, chunk)


def _hutchinson(request: Request, samples: int, generator: torch.Generator | None) -> Tensor:
    parts: list[Tensor] = []
    for _ in range(samples):
        signs = random_signs(request.output, generator)
        pulled = pull(request.output, request.target, signs, create_graph=request.create_graph)
        parts.append((signs.reshape(request.samples, request.row_count) * by_sample(request, pulled)).sum(1))
    return added(request, parts) / samples


def _trace(blocks: Tensor, start: int = 0) -> Tensor:
    """sum over r of blocks[b, r, start + r], [B]."""
    return blocks[:, :, start : start + blocks.shape[1]].diagonal(dim1=1, dim2=2).sum(1)


def _pushed(request: Request, chunk: int) -> Tensor:
    parts: list[Tensor] = []
    for number, directions in enumerate(torch.split(every_direction(request, "columns"), chunk)):
        columns = PUSHED.run(request, directions, chunk)
        parts.append(_trace(columns.transpose(1, 2), number * chunk))
    return added(request, parts)


def _by_rows(trust: Trust, chunk: int | None) -> Tensor:
    parts: list[Tensor] = []
    pass_rows(trust, chunk, lambda start, blocks: parts.append(_trace(blocks, start)))
    return added(trust.request, parts)
