"""``gw.batch_jacobian``: the Jacobian of every sample with respect to its own part of a node."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from gradwright.derivatives.coupling import coupled_error, probe
from gradwright.derivatives.engine import hooks_heard
from gradwright.derivatives.independence import examine_structure
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.request import BatchDim, read_request
from gradwright.derivatives.target import Wrt


def batch_jacobian(
    y: Tensor,
    wrt: Wrt,
    batch_dim: BatchDim = 0,
    mode: Literal["auto", "reverse", "forward"] = "auto",
    batch: Literal["auto", "coupled", "assume_independent"] = "auto",
    create_graph: bool = False,
    max_bytes: int | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """dy[b] / dz[b] for every sample b at once, [B, *K, *D], of a graph that already exists.

    >>> import torch
    >>> z = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> y = torch.stack([z.prod(1), z.sum(1)], 1).tanh()
    >>> batch_jacobian(y, wrt=z).shape
    torch.Size([2, 2, 2])
    """
    request = read_request(y, wrt, batch_dim, create_graph)
    structure = examine_structure(request.way, 0, request.target_axis or 0)
    with hooks_heard(request.target) as heard:
        blocks = SUM_TRICK.run(request, every_direction(request, SUM_TRICK.side), 1)
    proved = structure.proved and not heard.python and not heard.unknown
    if batch == "auto" and request.samples > 1 and not proved:
        seen = probe(request, blocks)
        if not seen.held:
            raise coupled_error(request, structure, seen)
    return blocks.reshape(request.samples, *request.rows, *request.columns)
