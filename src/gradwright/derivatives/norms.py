"""``gw.jacobian_norm``: the Frobenius norm of every sample's Jacobian."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gradwright.derivatives.derivation import jacobian_of
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, read_options
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.methods.estimators import random_signs, read_estimator
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.rows import added, pass_rows
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.planning.chunks import chunk_for_cache
from gradwright.derivatives.samples.trust import Trust, real_only
from gradwright.derivatives.second_order import require_twice
from gradwright.errors import UsageError


@without_unreadable_rules
def jacobian_norm(
    y: Output,
    wrt: Wrt,
    estimator: Literal["exact", "hutchinson"] = "exact",
    samples: int = 1,
    generator: torch.Generator | None = None,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
    create_graph: bool = False,
    chunk_size: int | None = None,
) -> Tensor:
    """The Frobenius norm of d y[b] / d wrt[b] for every sample b at once, [B].

    ``y``: [B, *K] (the batch along ``batch_dim``), a tensor of a graph that exists, or a function of ``wrt``.
    ``wrt``: [B, *D].  Dtype: that of ``wrt``.  Units: y over wrt.  Real numbers only.
    ``estimator``: "exact"; or "hutchinson", the root of the mean of |e^T J|^2 over ``samples`` random sign vectors e.
    Its square is an unbiased estimate of the square, so penalise the square; the norm itself comes out too small on
    average, the less so the more ``samples``.  ``generator``: as in ``gw.divergence``.
    Where the norm is 0, its derivative is taken to be 0, to every order.
    ``batch``: what to do where samples meet: "auto" finds out and raises, "coupled" computes each sample's own,
    "assume_independent" doesn't look.
    ``create_graph``: the result can be differentiated, as in a contractive penalty.
    Cost: exact, min(K, D) backwards or forwards, of which never more than ``chunk_size`` are held, with
    ``create_graph`` a ``gw.batch_jacobian``; hutchinson, one backward for each of ``samples``, and two more where the
    recorded operations don't prove that samples are independent.
    Raises: CoupledBatch, NoSecondDerivative (with ``create_graph``), DerivativeError, UsageError.
    Source: Hoffman et al. 2019, "Robust Learning with Jacobian Regularization", equation 9.

    >>> x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    >>> jacobian_norm(x**2 / 2, wrt=x)
    tensor([5., 0.])
    """
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    real_only(request, "jacobian_norm")
    if create_graph:
        require_twice(request.way)
    trust, options = Trust(request, batch), read_options("auto", batch, None, chunk_size, None)
    estimated = read_estimator(estimator, samples)
    with recording(create_graph):
        if estimated:
            return _root(_hutchinson(trust, samples, generator))
        if create_graph or trust.exact:
            return _root(jacobian_of(request, options).square().sum((1, 2)))
        return _root(_streamed(trust, options.chunk_size))


def _root(squares: Tensor) -> Tensor:
    """The square root, whose derivative is 0 where it is 0: NaN would come of 0 * inf in every parameter."""
    zero = squares == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())


def _hutchinson(trust: Trust, samples: int, generator: torch.Generator | None) -> Tensor:
    request = trust.request
    if trust.exact:
        raise UsageError(
            'estimator="hutchinson" needs samples that are independent, and a wrt with a batch: where samples meet, '
            'estimator="exact" with batch="coupled" computes each sample\'s own'
        )
    parts: list[Tensor] = []
    with trust.listening():
        for _ in range(samples):
            parts.append(trust.pulled(random_signs(request.output, generator)).square().sum(1))
    trust.confirm_apart()
    return added(request, parts) / samples


def _streamed(trust: Trust, chunk: int | None) -> Tensor:
    """|J|^2 by rows or columns, whichever are fewer, none of which is kept.  Raises: CoupledBatch."""
    request = trust.request
    if request.column_count < request.row_count and PUSHED.unfit(request) is None:
        trust.listen()
        if not trust.hooked and not trust.open:
            return _by_columns(request, chunk or chunk_for_cache(request))
    parts: list[Tensor] = []
    pass_rows(trust, chunk, lambda start, blocks: parts.append(blocks.square().sum((1, 2))))
    return added(request, parts)


def _by_columns(request: Request, chunk: int) -> Tensor:
    parts: list[Tensor] = []
    for directions in torch.split(every_direction(request, "columns"), chunk):
        parts.append(PUSHED.run(request, directions, chunk).square().sum((1, 2)))
    return added(request, parts)
