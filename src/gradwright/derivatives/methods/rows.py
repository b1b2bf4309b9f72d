"""Rows of every sample's Jacobian, a chunk at a time, seen once and let go."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.batched import BATCHED
from gradwright.derivatives.methods.method import Method, every_direction
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.samples.meeting import largest
from gradwright.derivatives.samples.probe import random_cotangent
from gradwright.derivatives.samples.trust import Trust
from gradwright.ground.devices import find_constants

#: Rows at a time on an accelerator that nothing was measured on: each launch costs more there than the arithmetic of a
#: row (see ``ground.devices``).
TOGETHER = 32


class RowSum:
    """sum over rows r of w[b, r] R[b, r, :], added up while the rows R pass by.

    ``told``: the sum, [B, D], attached where the request makes a graph.  ``scale``: the size of what was added, [B].
    """

    def __init__(self, request: Request) -> None:
        self._attached = request.create_graph
        shape = (request.samples, request.column_count)
        self.told = torch.zeros(shape, dtype=request.target.dtype, device=request.target.device)
        self.scale = self.told.new_zeros(request.samples)

    def add(self, weights: Tensor, blocks: Tensor) -> None:
        """``weights``: [B, R].  ``blocks``: [B, R, D], rows that all samples shared."""
        kept = blocks if self._attached else blocks.detach()
        weighted = weights.to(kept.dtype).unsqueeze(2) * kept
        self.told = self.told + weighted.sum(1)
        self.scale = self.scale + largest(weighted.detach().abs().sum(1))


def rows_method(request: Request, chunk: int | None) -> tuple[Method, int]:
    """One by one on a CPU, where that is as fast and holds least; in chunks where each launch costs."""
    at_once = chunk or _choose_rows_together(request.target.device)
    return (BATCHED, at_once) if at_once > 1 and BATCHED.unfit(request) is None else (SUM_TRICK, 1)


def _choose_rows_together(device: torch.device) -> int:
    if device.type == "cpu":
        return 1
    found = find_constants(device)
    return TOGETHER if found is None else found.rows_together


def pass_rows(trust: Trust, chunk: int | None, take: Callable[[int, Tensor], None]) -> None:
    """Make the rows of the Jacobian and hand them to ``take(start, blocks)``, blocks [B, R, D]; none is kept.

    Cost: K backwards, and one more where independence is not proved.  Raises: CoupledBatch, after the last row.
    """
    request = trust.request
    method, at_once = rows_method(request, chunk)
    probed = _Probed(request) if trust.open else None
    with trust.listening():
        for number, directions in enumerate(torch.split(every_direction(request, "rows"), at_once)):
            blocks, start = method.run(request, directions, at_once), number * at_once
            take(start, blocks)
            if probed is not None:
                probed.add(start, blocks)
    if trust.open and probed is not None:
        trust.confirm(probed.cotangent, trust.pulled, probed.sum.told, probed.sum.scale)


class _Probed:
    """What the rows say that the vjp of a random cotangent is."""

    def __init__(self, request: Request) -> None:
        self.cotangent, self.sum = random_cotangent(request.output), RowSum(request)
        self._weights = self.cotangent.reshape(request.samples, request.row_count)

    def add(self, start: int, blocks: Tensor) -> None:
        self.sum.add(self._weights[:, start : start + blocks.shape[1]], blocks)


def added(request: Request, parts: list[Tensor]) -> Tensor:
    """The sum of what chunks of rows or columns gave, [B]; zeros where there were none."""
    zero = torch.zeros(request.samples, dtype=request.target.dtype, device=request.target.device)
    return sum(parts, start=zero)
