"""The sum trick: one backward per direction, for all samples at once.

With samples that don't meet, d y[b', k] / d z[b] is zero for b' != b, so the vjp of a cotangent that is the same row
vector c for every sample holds, in row b, the product c J[b] and nothing else.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.carrying import one_by_one, pulling, rows_of, rows_shape, unbatched_rows
from gradwright.derivatives.methods.method import Method


def _run(request: Request, directions: Tensor, chunk: int) -> Tensor:
    made = one_by_one(request, pulling(request), directions, rows_shape(request), request.target.dtype)
    return rows_of(request, made)


#: Fits whatever graph autograd can go back through.  Memory: one direction's cotangents at a time, and the result.
SUM_TRICK = Method("sum trick", "rows", unbatched_rows, _run)
