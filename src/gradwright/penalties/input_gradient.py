"""``input_gradient_penalty``: the squared norm of the loss's gradient with respect to the inputs ("double backprop").

    P_b = || dE_b / dx_b ||^2

Drucker & LeCun 1992, "Improving generalization performance using double backpropagation", IEEE Transactions on Neural
Networks 3(6): their energy of the backward network, 1/2 sum_i (dE_f / dx_i)^2, here without the half (as in Ross &
Doshi-Velez 2018, arXiv:1711.09404); the weight is the caller's to multiply.
"""

from __future__ import annotations

from torch import Tensor

from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.penalties.values import Reduction, one_each, read_reduction, reduced, squares


def input_gradient_penalty(
    losses: Output,
    wrt: Wrt,
    reduction: Reduction = "mean",
    batch: Batch = "auto",
) -> Tensor:
    """||d losses_b / d wrt_b||^2 of every sample b.

    ``losses``: [B], one loss per sample (``reduction="none"``), of a graph that exists, or a function that makes them
    from ``wrt``.  ``wrt``: [B, *D].
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, at least float32; differentiable.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then), NoSecondDerivative, DerivativeError;
    UsageError for a scalar: from the mean of the losses the penalty would come B^2 times smaller, without a sign of it.
    Cost: one differentiable backward.

    >>> import torch
    >>> x = torch.tensor([[1.0, 2.0], [0.0, 1.0]], requires_grad=True)
    >>> input_gradient_penalty(x.square().sum(1), wrt=x, reduction="none").tolist()
    [20.0, 4.0]
    """
    read_reduction(reduction)
    losses, wrt = evaluated(losses, wrt, create_graph=True)
    losses = one_each(losses, "losses")
    return reduced(squares(batch_jacobian(losses, wrt, batch=batch, create_graph=True)), reduction)
