"""The sum trick: one backward per direction, for all samples at once.

With samples that don't meet, d y[b', k] / d z[b] is zero for b' != b, so the vjp of a cotangent that is the same row
vector c for every sample holds, in row b, the product c J[b] and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.engine import pull
from gradwright.derivatives.methods.method import Method
from gradwright.derivatives.request import Request


def _run(request: Request, directions: Tensor, chunk: int) -> Tensor:
    count = request.samples
    made = [
        request.batch_first(
            pull(
                request.output,
                request.target,
                direction.reshape(request.rows).expand(request.output.shape),
                create_graph=request.create_graph,
            )
        ).reshape(count, -1)
        for direction in directions
    ]
    return torch.stack(made, 1) if made else request.output.new_zeros(count, 0, request.column_count)


#: Fits whatever graph autograd can go back through.  Memory: one direction's cotangents at a time, and the result.
SUM_TRICK = Method("sum trick", "rows", lambda request: None, _run)
