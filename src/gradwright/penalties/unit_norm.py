"""``unit_norm_penalty``: the distance of every sample's Jacobian norm from a target.

J_b = dy_b / dz_b, an array of K x D numbers; ||J_b||_F is the root of the sum of their squares. The penalty is

    P_b = | ||J_b||_F - c |,        reduction="sum":  P = sum_b P_b

A loop over samples that takes the gradient of one output at a time computes the same with K backwards per sample. A
mean over the batch is another loss: B times smaller. The derivative is  sign(||J_b|| - c) J_b / ||J_b||; at J_b = 0
and at ||J_b|| = c, where there is none, the subgradient 0 is taken (sqrt alone gives NaN at 0).

Source: with c = 1 on inputs it is the penalty of Gulrajani et al. 2017, arXiv:1704.00028, with the distance in place
of its square.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.function_form import Output
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.request import BatchDim
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.penalties.values import Reduction, norms, read_reduction, reduced


def unit_norm_penalty(
    y: Output,
    wrt: Wrt,
    target: float = 1.0,
    reduction: Reduction = "sum",
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
) -> Tensor:
    """| ||dy_b/dz_b||_F - target | of every sample b, summed over the batch.

    ``y``: [B, *K], of a graph that exists, or a function that makes it from ``wrt``.  ``wrt``: [B, *D], any node.
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, float32 where that is narrower; differentiable,
    with derivative 0 where the norm is 0 or is ``target``.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then), NoSecondDerivative, DerivativeError,
    UsageError.  Cost: that of ``gw.batch_jacobian(create_graph=True)``.

    >>> import torch
    >>> z = torch.tensor([[3.0], [0.0]], requires_grad=True)
    >>> y = torch.cat([1.5 * z.square(), 2 * z.square()], 1)  # dy/dz = (3 z, 4 z): norms 15 and 0
    >>> penalty = unit_norm_penalty(y, wrt=z)
    >>> penalty.item()
    15.0
    >>> torch.autograd.grad(penalty, z)[0].int().tolist()
    [[5], [0]]
    """
    read_reduction(reduction)
    blocks = batch_jacobian(y, wrt, batch_dim=batch_dim, batch=batch, create_graph=True)
    return reduced((norms(blocks) - target).abs(), reduction)
