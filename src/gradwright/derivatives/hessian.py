"""``gw.batch_hessian`` and ``gw.hessian_diagonal``: second derivatives of every sample's own value."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gradwright.derivatives.curvature import (
    SecondProbe,
    diagonals,
    exact_blocks,
    listened_gradient,
    require_derivatives,
)
from gradwright.derivatives.derivation import jacobian_of
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, Options, read_options
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.planning.budget import require_room
from gradwright.derivatives.samples.trust import Trust, read_chunk, real_only
from gradwright.errors import UsageError


@without_unreadable_rules
def batch_hessian(
    y: Output,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """d2 y[b] / d wrt[b] d wrt[b] for every sample b at once, [B, *D, *D].

    ``y``: [B], one value per sample, a tensor of a graph that exists, or a function of ``wrt``.
    ``wrt``: [B, *D] (the batch along ``batch_dim``), or a parameter that all samples share, which is then D.
    Dtype: that of ``wrt``.  Units: those of y over those of wrt squared.  Real numbers only.
    ``batch``: what to do where samples meet: "auto" finds out and raises, "coupled" computes each sample's own,
    "assume_independent" doesn't look.
    ``create_graph``, ``max_bytes``, ``chunk_size``: as in ``gw.batch_jacobian``, for the gradient as its y; where each
    sample has backwards of its own (``batch="coupled"``, a parameter), ``max_bytes`` is refused.
    Cost: one backward with a graph, then the Jacobian of the gradient: D backwards through it.
    Raises: CoupledBatch, NoSecondDerivative (before anything is computed), DerivativeError, UsageError.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> batch_hessian(x.prod(1) ** 2, wrt=x)[0]  # of (a b)^2 at a = 1, b = 2: 2 b^2, 4 a b, 2 a^2
    tensor([[8., 8.],
            [8., 2.]])
    """
    options = read_options("auto", batch, max_bytes, chunk_size, None)
    trust = _trusted("batch_hessian", y, wrt, batch_dim, batch, create_graph)
    request = trust.request
    with recording():
        blocks = _exact(request, options) if trust.exact else _shared(trust, options)
        return blocks.reshape(request.samples, *request.columns, *request.columns)


def _exact(request: Request, options: Options) -> Tensor:
    """By backwards of each sample's own, [B, 1, D, D].  Raises: UsageError for ``max_bytes``, which they don't keep."""
    if options.max_bytes is not None:
        raise UsageError(
            "max_bytes is for Hessians by rows that all samples share; here each sample has backwards of its own "
            '(batch="coupled", or a wrt that all samples share): give chunk_size, how many of them go through at a time'
        )
    return exact_blocks(request, options.chunk_size or request.samples)


def _shared(trust: Trust, options: Options) -> Tensor:
    """The Hessians as the Jacobian of the gradient, [B, D, D].  Raises: CoupledBatch."""
    request = trust.request
    shape = (request.samples, request.column_count, request.column_count)
    gradient = listened_gradient(trust, torch.ones_like(request.output))
    if gradient is None:
        require_room(shape, request.target.dtype, options.max_bytes)
        blocks = torch.zeros(shape, dtype=request.target.dtype, device=request.target.device)
    else:
        blocks = jacobian_of(gradient, replace(options, batch="assume_independent")).reshape(shape)
    if trust.open:
        probe = SecondProbe(request)
        probe.add(0, 0, blocks)
        probe.confirm(trust)
    return blocks


@without_unreadable_rules
def hessian_diagonal(
    y: Output,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
    create_graph: bool = False,
    chunk_size: int | None = None,
) -> Tensor:
    """d2 y[b] / d wrt[b, d]^2 for every sample b and entry d, [B, *D].

    ``y``: [B], one value per sample, a tensor of a graph that exists, or a function of ``wrt``.
    ``wrt``, ``batch``, ``create_graph``, dtype, units: as in ``gw.batch_hessian``.
    ``chunk_size``: how many rows of the Hessian are made at a time (one on a CPU by default).
    Cost: 1 + D backwards; the Hessian is never held.  Only the sum is wanted: ``gw.laplacian`` is faster.
    Raises: CoupledBatch, NoSecondDerivative (before anything is computed), DerivativeError, UsageError.

    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> hessian_diagonal(x.prod(1) ** 2, wrt=x)
    tensor([[8., 2.]])
    """
    trust = _trusted("hessian_diagonal", y, wrt, batch_dim, batch, create_graph)
    request, chunk = trust.request, read_chunk(chunk_size)
    with recording():
        if trust.exact:
            made = exact_blocks(request, chunk or request.samples).diagonal(dim1=2, dim2=3)
        else:
            made = diagonals(trust, chunk)
        return made.reshape(request.samples, *request.columns)


def _trusted(name: str, y: Output, wrt: Wrt, batch_dim: BatchDim, batch: str, create_graph: bool) -> Trust:
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    one_value(request, name)
    real_only(request, name)
    require_derivatives(request)
    return Trust(request, batch)


def one_value(request: Request, name: str) -> None:
    """Raises: UsageError where a sample has more values than one."""
    if request.rows:
        raise UsageError(
            f"gw.{name} needs one value per sample, y of shape [B]; it has {list(request.rows)} values per sample: "
            + ("take y.squeeze(1)" if request.row_count == 1 else "take one of them at a time, as in y[:, 0]")
        )
