"""The sum trick for several directions at a time: ``torch.func.vmap`` over ``torch.autograd.grad``.

It works on a graph that exists already, and differentiates again at the cost of the graph it makes (unlike
``is_grads_batched=True``, whose older vmap took 2440 ms then where this took 364, at D=32, K=64:
docs/measured/benchmarks.md).
"""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_ever, hooks_heard
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.carrying import (
    in_chunks,
    one_by_one,
    pulling,
    rows_of,
    rows_shape,
    unbatched_rows,
    vmap_unfit,
)
from gradwright.derivatives.methods.method import Method


def _run(request: Request, directions: Tensor, chunk: int) -> Tensor:
    shape, dtype, pull = rows_shape(request), request.target.dtype, pulling(request)
    if hooks_ever() and _hook_speaks(request, directions[:1]):
        return rows_of(request, one_by_one(request, pull, directions, shape, dtype))
    return rows_of(request, in_chunks(request, pull, directions, shape, dtype, chunk))


def _hook_speaks(request: Request, direction: Tensor) -> bool:
    """Whether a hook stands on the way: it is not made for what vmap would hand it.  Cost: one backward."""
    with hooks_heard() as heard:
        one_by_one(request, pulling(request), direction, rows_shape(request), request.target.dtype)
    return not heard.silent


#: Fits where every backward on the way is torch's own.  Memory: the cotangents of ``chunk`` directions, and the result.
BATCHED = Method("batched", "rows", lambda request: unbatched_rows(request) or vmap_unfit(request), _run)
