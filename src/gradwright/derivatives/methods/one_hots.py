"""One backward per sample and output: what the Jacobian is by definition, whatever the samples do to one another.

y[b, k] alone is pulled back, and of what arrives only the part of sample b is kept: d y[b, k] / d z[b]. A target that
all samples share, a parameter, keeps all of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import hooks_heard, run_backward, told
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.methods.carrying import plain, vmap_unfit


def one_hots(request: Request, chunk: int, unit: complex = 1) -> Tensor:
    """The exact Jacobian, [B, K, D], also where the batch is coupled; D is all of an unbatched target.

    Differentiable where the request asks.  ``chunk``: how many of the B * K backwards go through together under vmap;
    where a backward is written in Python, or a hook speaks, they go one by one.
    Cost: B * K backwards over the whole batch.  Memory: ``chunk`` cotangents of the whole batch, and the result.
    """
    every = torch.arange(request.samples * request.row_count, device=request.target.device)
    return own_rows(request, every, chunk, unit).reshape(request.samples, request.row_count, request.column_count)


def own_rows(request: Request, numbers: Tensor, chunk: int, unit: complex = 1) -> Tensor:
    """The rows of these entries of y, by their places in it, counted through, each pulled back as ``unit``: [N, D]."""
    output, target, rows = request.output, request.target, request.row_count
    every = torch.arange(output.numel(), device=output.device)
    zero = torch.zeros((), dtype=target.dtype, device=target.device)

    def own(number: Tensor) -> Tensor:
        cotangent = (unit * (every == number).to(output.dtype)).reshape(output.shape)
        pulled = run_backward(output, target.edge, cotangent, request.create_graph)
        if pulled is None:
            return zero.new_zeros(request.column_count)
        if request.target_axis is None:
            return pulled.reshape(-1)
        sample = number.div(rows, rounding_mode="floor").reshape(1)
        return request.batch_first(pulled).reshape(request.samples, -1).index_select(0, sample).reshape(-1)

    if not len(numbers):
        return zero.new_zeros(0, request.column_count)
    with told(output, target), plain(output.device.type):
        with hooks_heard() as heard:
            first = own(numbers[0])
        alone = not heard.silent or vmap_unfit(request) is not None
        step, several = 1 if alone else chunk, torch.func.vmap(own)

        def made(start: int) -> Tensor:
            return own(numbers[start])[None] if alone else several(numbers[start : start + step])

        starts = range(1, len(numbers), step)
        if request.create_graph:
            return torch.cat([first[None], *map(made, starts)])
        result = zero.new_empty(len(numbers), request.column_count)
        result[0] = first
        for start in starts:
            result[start : start + step] = made(start)
        return result
