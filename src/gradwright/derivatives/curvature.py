"""Second derivatives of every sample, by backwards through a backward: Hessians, and the Laplacian by rows.

Notation: y [B, K], z [B, D], g_k = d (sum_b y[b, k]) / dz.  Where samples don't meet, row d of the Hessian of y[b, k]
is row b of the vjp of g_k with the cotangent e_d, for all samples at once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import pull
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.one_hots import one_hots
from gradwright.derivatives.methods.rows import RowSum, rows_method
from gradwright.derivatives.samples.draws import random_like
from gradwright.derivatives.samples.probe import random_cotangent
from gradwright.derivatives.samples.trust import SEED, Trust, by_sample, placed
from gradwright.derivatives.second_order import require_twice
from gradwright.derivatives.third_order import require_thrice


def require_derivatives(request: Request) -> None:
    """Make sure of what backwards through a backward need.  Raises: NoSecondDerivative, DerivativeError."""
    require_twice(request.way)
    if request.create_graph:
        require_thrice(request.way)


def gradient_request(request: Request, cotangent: Tensor) -> Request | None:
    """The gradient of sum(cotangent * y), [B, *D], as an output of its own; None where it is constant."""
    pulled = request.batch_first(pull(request.output, request.target, cotangent, create_graph=True))
    if not pulled.requires_grad:
        return None
    way = find_way(pulled, request.target)
    return Request(pulled, request.target, request.target_axis, way, request.create_graph) if way.found else None


def listened_gradient(trust: Trust, cotangent: Tensor) -> Request | None:
    """``gradient_request``, while listening for hooks: each hook on the way speaks in this first backward."""
    with trust.listening():
        return gradient_request(trust.request, cotangent)


class SecondProbe:
    """What the rows of the Hessians tell about one backward through a backward: NOTE [Probing second derivatives]."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._sum = RowSum(request)
        self._cotangent = random_cotangent(request.output)
        self._tangent = random_like(self._sum.told, SEED)

    def add(self, row: int, start: int, blocks: Tensor) -> None:
        """``blocks``: [B, R, D], the rows from ``start`` of the Hessians of output ``row``."""
        weight = self._cotangent.reshape(self._request.samples, self._request.row_count)[:, row, None].to(
            self._tangent.dtype
        )
        self._sum.add(weight * self._tangent[:, start : start + blocks.shape[1]], blocks)

    def confirm(self, trust: Trust) -> None:
        """Raises: CoupledBatch where the Hessians are not each sample's own.  Cost: two backwards."""
        request = self._request

        def seen_from(cotangent: Tensor) -> Tensor:
            gradient = gradient_request(request, cotangent)
            if gradient is None:
                return torch.zeros_like(self._tangent)
            tangent = self._tangent.reshape(gradient.output.shape)
            pulled = pull(gradient.output, request.target, tangent, create_graph=request.create_graph)
            return by_sample(request, pulled)

        trust.confirm(self._cotangent, seen_from, self._sum.told, self._sum.scale)


def diagonals(trust: Trust, chunk: int | None) -> Tensor:
    """d2 y[b, k] / dz[b, d]^2, [B, K, D], by the rows of the Hessians, of which only the diagonal entry is kept.

    Cost: K (1 + D) backwards.  Memory: where no graph is made, ``chunk`` rows and the result.
    Raises: CoupledBatch.
    """
    request = trust.request
    count, columns = request.samples, request.column_count
    made: list[Tensor] = []
    probe: SecondProbe | None = None
    for row, cotangent in enumerate(every_direction(request, "rows")):
        gradient = listened_gradient(trust, cotangent.reshape(request.rows).expand(request.output.shape))
        if row == 0 and trust.open:
            probe = SecondProbe(request)
        if gradient is None:
            made += [torch.zeros(count, columns, dtype=request.target.dtype, device=request.target.device)]
            continue
        method, at_once = rows_method(gradient, chunk)
        directions = every_direction(gradient, "rows")
        entries: list[Tensor] = []
        for start in range(0, columns, at_once):
            blocks = method.run(gradient, directions[start : start + at_once], at_once)
            entries += [blocks[:, :, start : start + at_once].diagonal(dim1=1, dim2=2)]
            if probe is not None:
                probe.add(row, start, blocks)
        made += [torch.cat(entries, 1)]
    if probe is not None:
        probe.confirm(trust)
    return torch.stack(made, 1) if made else request.output.new_zeros(count, 0, columns)


def exact_blocks(request: Request, chunk: int) -> Tensor:
    """The Hessians of every sample and output, [B, K, D, D], whatever the samples do to each other.

    Cost: B K (1 + D) backwards, batched in chunks.
    """
    count, rows, columns = request.samples, request.row_count, request.column_count
    gradient = one_hots(replace(request, create_graph=True), chunk).reshape(count, rows * columns)
    way = find_way(gradient, request.target) if gradient.requires_grad else None
    if way is None or not way.found:
        return gradient.new_zeros(count, rows, columns, columns)
    blocks = one_hots(Request(gradient, request.target, request.target_axis, way, request.create_graph), chunk)
    return blocks.reshape(count, rows, columns, columns)


def exact_hvp(request: Request, vector: Tensor) -> Tensor:
    """Each sample's own Hessian times its own part of ``vector``, whatever the samples do to each other; y is [B].

    Cost: 2 B backwards.
    """
    own = by_sample(request, vector)
    gradient = one_hots(replace(request, create_graph=True), request.samples).reshape(own.shape)
    made = torch.zeros_like(own)
    if gradient.requires_grad and find_way(gradient, request.target).found:
        samples = torch.arange(request.samples, device=own.device)[:, None]
        rows: list[Tensor] = []
        for b in range(request.samples):
            pulled = pull(gradient, request.target, own * (samples == b), create_graph=request.create_graph)
            rows.append(by_sample(request, pulled)[b])
        made = torch.stack(rows) if rows else made
    return placed(request, made)
