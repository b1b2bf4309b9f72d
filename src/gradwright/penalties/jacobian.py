"""``jacobian_penalty``: the squared Frobenius norm of every sample's Jacobian.

    P_b = ||dy_b/dz_b||_F^2

Exact: Sokolic et al. 2017, "Robust large margin deep neural networks", arXiv:1605.08254 (Jacobian
regularizer). With n random projections, Hoffman et al. 2019, "Robust learning with Jacobian regularization",
arXiv:1908.02729 (algorithm 1):

    ||J||_F^2 = K E_v ||v^T J||^2   over unit vectors v,        so   P_b ~ (K / n) sum_i ||v_ib^T J_b||^2

with a v of its own for every sample b and projection i. One backward a projection, in place of K. Unbiased: each v is
uniform on the sphere, E v v^T = 1 / K. The paper's loss has half of it, times lambda: the caller's to multiply.

v_b^T J_b is the gradient of the number s_b = v_b . y_b with respect to z_b. So it is asked for as the Jacobian of
s [B], and whether samples meet is found out as for any other Jacobian, about s.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.request import BatchDim, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.errors import UsageError
from gradwright.penalties.values import Reduction, read_reduction, reduced, squares


def jacobian_penalty(
    y: Output,
    wrt: Wrt,
    projections: int | None = None,
    generator: torch.Generator | None = None,
    reduction: Reduction = "mean",
    batch_dim: BatchDim = 0,
    batch: Batch = "auto",
) -> Tensor:
    """||dy_b/dz_b||_F^2 of every sample b, exact or estimated by random projections.

    ``y``: [B, *K], of a graph that exists, or a function that makes it from ``wrt``.  ``wrt``: [B, *D].
    ``projections``: None for the exact norm, or how many random directions of the output are looked along; they are
    drawn from ``generator``, or from torch's own random numbers.
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, at least float32; differentiable.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then), NoSecondDerivative, DerivativeError,
    UsageError.  Cost: a differentiable Jacobian; with projections, one differentiable backward each.

    >>> z = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> jacobian_penalty(torch.stack([z.prod(1), z.sum(1)], 1), wrt=z).item()  # rows (2, 1) and (1, 1)
    7.0
    """
    read_reduction(reduction)
    y, wrt = evaluated(y, wrt, create_graph=True)
    if projections is None:
        return reduced(squares(batch_jacobian(y, wrt, batch_dim=batch_dim, batch=batch, create_graph=True)), reduction)
    if projections < 1:
        raise UsageError(f"projections={projections}: give 1 or more, or None for the exact norm")
    request = read_request(y, wrt, batch_dim, create_graph=True)
    if request.output.is_complex():
        raise UsageError(f"random directions are taken of real values per sample; y is {request.output.dtype}")
    with recording():  # they are to be differentiated, whoever asks for the value alone
        flat = request.output.reshape(request.samples, request.row_count)
        directions = _on_the_sphere(projections, flat, generator)
        products = [(flat * direction).sum(1) for direction in directions]
    found = [
        squares(batch_jacobian(along, wrt, batch_dim=(0, request.target_axis), batch=batch, create_graph=True))
        for along in products
    ]
    return reduced(torch.stack(found).mean(0) * request.row_count, reduction)


def _on_the_sphere(count: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """[count, B, K]: unit vectors, uniform on the sphere."""
    device = like.device if generator is None else generator.device
    drawn = torch.randn(count, *like.shape, generator=generator, device=device).to(like)
    unit: Tensor = drawn / torch.linalg.vector_norm(drawn, dim=2, keepdim=True)
    return unit
