"""``gw.batch_jacobian``: the Jacobian of every sample with respect to its own part of a node."""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.derivation import jacobian_of
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, Mode, read_options
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.errors import UsageError


@without_unreadable_rules
def batch_jacobian(
    y: Output,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    mode: Mode = "auto",
    batch: Batch = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
    chunk_size: int | None = None,
    sparsity: Tensor | None = None,
) -> Tensor:
    """dy[b] / dz[b] for every sample b at once, [B, *K, *D], of a graph that already exists.

    ``y``: [B, *K], computed from ``wrt``; or a function, which is called with ``wrt`` first.
    ``wrt``: z, [B, *D]: a tensor of y's graph, whether leaf or hidden layer, a ``GradientEdge``, or what
    ``gw.capture(module)`` caught; or a parameter, shared by all samples, with D all of its axes.
    ``batch_dim``: the axis of the samples in both, or (that of y, that of z), where None is for a z without one.
    ``mode``: "reverse" makes rows by backwards, "forward" columns by forwards, "auto" whichever is predicted quicker.
    ``batch``: "auto" raises where the samples turn out to depend on one another, "coupled" computes each output of each
    sample on its own, exactly, "assume_independent" doesn't look.
    ``create_graph``: the result can be differentiated again, as in a penalty.
    ``max_bytes``: the most memory to take at a time, result included, within 10 %.  ``chunk_size``: how many directions
    go through at a time.  Both change time and memory, not the result.
    ``sparsity``: boolean [*K, *D], True wherever an entry of one sample's Jacobian may be other than zero; it is
    checked.

    Units: y's over z's.  Dtype and device: those of z (complex where y is: dRe/dz + i dIm/dz; and dy/dz, not its
    conjugate, where both are).  The graph, random state and ``.grad`` stay as they are.
    Cost: as ``gw.plan`` says: at most min(K, D) backwards or forwards of the whole batch, and one more where the
    graph's structure alone does not prove the samples apart; B * K backwards where ``batch="coupled"``.
    Raises: CoupledBatch where samples depend on one another; DerivativeError where no way leads from y to z, the graph
    was freed or changed in place, ``max_bytes`` is too little, or the sparsity is wrong; NoSecondDerivative;
    UsageError for arguments that don't fit together.
    Source: TensorFlow's ``batch_jacobian`` (the name); torch.func's ``vmap(jacrev(f))`` is the function's counterpart.

    >>> import torch
    >>> z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = torch.stack([z.prod(1), z.sum(1)], 1)
    >>> batch_jacobian(y, wrt=z).tolist()
    [[[2.0, 1.0], [1.0, 1.0]], [[4.0, 3.0], [1.0, 1.0]]]
    >>> batch_jacobian(torch.sin, torch.zeros(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    options = read_options(mode, batch, max_bytes, chunk_size, sparsity)
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    with recording(create_graph):
        return jacobian_of(request, options).reshape(request.samples, *request.rows, *request.columns)


@without_unreadable_rules
def batch_gradient(
    y: Output,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
) -> Tensor:
    """dy[b] / dz[b] for one number y[b] per sample, [B, *D]: ``batch_jacobian`` with y [B], or [B, 1].

    Options, errors: those of ``batch_jacobian``.  Cost: one backward, and one more where the structure proves nothing.
    Raises: UsageError where y has more than one entry per sample.

    >>> import torch
    >>> z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> batch_gradient(z.square().sum(1), wrt=z).tolist()
    [[2.0, 4.0], [6.0, 8.0]]
    """
    options = read_options("auto", batch, max_bytes, None, None)
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    if request.row_count != 1:
        raise UsageError(
            f"y has {request.row_count} entries per sample ({list(request.rows)}): a gradient is of one number per "
            "sample; use gw.batch_jacobian, or sum or choose one first"
        )
    with recording(create_graph):
        return jacobian_of(request, options).reshape(request.samples, *request.columns)
