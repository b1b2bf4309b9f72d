"""Derivatives of a whole batch, of any node of a graph, with no loop."""

from gradwright.derivatives.divergences import divergence
from gradwright.derivatives.graph.captured import Captured, capture
from gradwright.derivatives.hessian import batch_hessian, hessian_diagonal
from gradwright.derivatives.jacobian import batch_gradient, batch_jacobian
from gradwright.derivatives.laplacians import laplacian
from gradwright.derivatives.norms import jacobian_norm
from gradwright.derivatives.per_sample.gradients import per_sample_gradients
from gradwright.derivatives.planning.plan import Plan, plan
from gradwright.derivatives.products import hvp, jvp, vjp
from gradwright.derivatives.samples.batch_independence import Independence, check_batch_independence

__all__ = [
    "Captured",
    "Independence",
    "Plan",
    "batch_gradient",
    "batch_hessian",
    "batch_jacobian",
    "capture",
    "check_batch_independence",
    "divergence",
    "hessian_diagonal",
    "hvp",
    "jacobian_norm",
    "jvp",
    "laplacian",
    "per_sample_gradients",
    "plan",
    "vjp",
]
