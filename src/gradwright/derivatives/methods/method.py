"""What a way to make a Jacobian is: backwards that make rows, or forwards that make columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gradwright.derivatives.graph.request import Request


@dataclass(frozen=True)
class Method:
    """``run(request, directions, chunk)`` carries R directions through the graph, the same for every sample.

    side "rows": directions are cotangents [R, K] of one sample's output, the result is [B, R, D].
    side "columns": directions are tangents [R, D] of one sample's target, the result is [B, K, R].
    ``chunk``: how many directions go through at a time.
    ``unfit``: why it can't be used for this request, in one sentence; None where it can.
    The identity as directions makes the Jacobian; sums of unit vectors make what colouring needs.
    """

    name: str
    side: Literal["rows", "columns"]
    unfit: Callable[[Request], str | None]
    run: Callable[[Request, Tensor, int], Tensor]


def every_direction(request: Request, side: Literal["rows", "columns"]) -> Tensor:
    """The identity: a direction for each row or column of one sample's Jacobian."""
    if side == "rows":
        return torch.eye(request.row_count, dtype=request.output.dtype, device=request.output.device)
    return torch.eye(request.column_count, dtype=request.target.dtype, device=request.target.device)
