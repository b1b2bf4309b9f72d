"""``gw.laplacian``: the trace of every sample's Hessian.

NOTE [Collapsed forward Laplacian]: along a graph h = f(x), with directions x'_p and the collapsed second part x'',

    h'_p = f'(x) x'_p          h'' = f'(x) x'' + sum_p f''(x)[x'_p, x'_p]

so that with x'_p = e_p and x'' = 0 the last h'' is sum_p d2y / dx_p^2. The second part is carried once, not per
direction, and nothing is differentiated backwards (Li et al. 2023, "Forward Laplacian", equations 5 to 7; Dangel et
al. 2025, "Collapsing Taylor mode automatic differentiation", section 3).
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.curvature import diagonals, exact_blocks, require_derivatives
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch, Mode, Options, read_options
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.methods.carrying import columns_unfit, same_for_all
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.pushed import push_jets, why_not_pushed
from gradwright.derivatives.nodes.unreadable import without_unreadable_rules
from gradwright.derivatives.planning.chunks import chunk_for_cache, chunk_within
from gradwright.derivatives.samples.trust import Trust, real_only
from gradwright.errors import UsageError


@without_unreadable_rules
def laplacian(
    y: Output,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    mode: Mode = "auto",
    batch: Batch = "auto",
    create_graph: bool = False,
    chunk_size: int | None = None,
    max_bytes: int | None = None,
) -> Tensor:
    """sum over d of d2 y[b, k] / d wrt[b, d]^2, for every sample and output at once.

    ``y``: [B] or [B, *K] (the batch along ``batch_dim``), a tensor of a graph that exists, or a function of ``wrt``.
    ``wrt``: [B, *D], a tensor of that graph, a ``GradientEdge``, or what ``gw.capture`` caught; or a parameter that all
    samples share, which is then D.
    Result: the shape of ``y``; dtype of ``wrt``; units of y over units of wrt squared.  Real numbers only.
    ``mode``: "forward" pushes first and collapsed second derivatives along the recorded nodes (NOTE [Collapsed forward
    Laplacian]); "reverse" takes the diagonal of the Hessian, row by row; "auto" goes forward where every node on the
    way is known and no hook stands on it.
    ``batch``: what to do where samples meet: "auto" finds out and raises, "coupled" computes each sample's own,
    "assume_independent" doesn't look.
    ``create_graph``: the result can be differentiated, as in a physics-informed loss.
    ``chunk_size``: how many directions are carried at a time.  ``max_bytes``: the most memory that the forward way may
    take, result included, within 10 %; the reverse way holds ``chunk_size`` rows (one, on a CPU), and refuses it.
    Cost: forward, about D forwards of the way; reverse, K (1 + D) backwards.
    Memory: forward, ``chunk_size`` tangents of the widest layer, of every layer with ``create_graph``.
    Raises: CoupledBatch, NoSecondDerivative (reverse), DerivativeError, UsageError.
    Source: Li et al. 2023, "Forward Laplacian", equations 5 to 7; Dangel et al. 2025, "Collapsing Taylor mode".

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> laplacian((x**3).sum(1), wrt=x)  # 6 x, summed over the two entries
    tensor([18., 42.])
    >>> laplacian(lambda x: x.prod(1) ** 2, torch.tensor([[1.0, 2.0]]))  # 2 (b^2 + a^2)
    tensor([10.])
    """
    y, wrt = evaluated(y, wrt, create_graph)
    request = read_request(y, wrt, batch_dim, create_graph)
    real_only(request, "laplacian")
    options = read_options(mode, batch, max_bytes, chunk_size, None)
    with recording():
        made = _made(Trust(request, batch), options)
        axis = (batch_dim[0] if isinstance(batch_dim, tuple) else batch_dim) % y.ndim
        return made.reshape(request.output.shape).movedim(0, axis)


def _made(trust: Trust, options: Options) -> Tensor:
    request, chunk = trust.request, options.chunk_size
    why = "rows are asked for" if options.mode == "reverse" else "each sample has backwards of its own"
    if options.batch != "coupled" and options.mode != "reverse":
        refused = _why_not_forward(trust)
        if refused is None:
            return _forward(request, _forward_chunk(request, options))
        why = refused
    for name, given in (('mode="forward"', options.mode == "forward"), ("max_bytes", options.max_bytes is not None)):
        if given:
            raise UsageError(f"{name} is for the forward way, which can't be taken: {why}")
    require_derivatives(request)
    if trust.exact:
        return exact_blocks(request, chunk or request.samples).diagonal(dim1=2, dim2=3).sum(2)
    return diagonals(trust, chunk).sum(2)


def _why_not_forward(trust: Trust) -> str | None:
    request = trust.request
    if why := columns_unfit(request) or why_not_pushed(request.way, 2):
        return why
    trust.listen()
    if trust.hooked:
        return "a hook stands on the way (or may: it can't be heard here), and only backwards run hooks"
    if trust.open and not trust.exact:  # what is pushed from a wrt that all samples share is each sample's own anyway
        return "the samples are not shown to be independent by the recorded operations alone"
    return None


def _forward_chunk(request: Request, options: Options) -> int:
    chunk = options.chunk_size or chunk_for_cache(request)
    if options.max_bytes is None or not request.column_count:
        return chunk
    return chunk_within(
        lambda count, size: _forward(request, size, count),
        request.column_count,
        chunk,
        options.max_bytes,
        request.create_graph,
        request.output.device,
    )


def _forward(request: Request, chunk: int, count: int | None = None) -> Tensor:
    """NOTE [Collapsed forward Laplacian]: the second parts of chunks of (the first ``count``) directions add up."""
    total: Tensor | None = None
    for directions in torch.split(every_direction(request, "columns")[:count], chunk):
        second = push_jets(request, same_for_all(request, directions), order=2).second
        if second is not None:
            total = second if total is None else total + second
    return torch.zeros_like(request.output) if total is None else total
