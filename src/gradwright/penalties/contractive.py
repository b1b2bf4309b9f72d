"""``contractive_penalty``: the penalty of contractive autoencoders.

Rifai et al. 2011, "Contractive auto-encoders: explicit invariance during feature extraction", ICML, equation 1:

    P_b = ||J_h(x_b)||_F^2 = sum_ij (dh_bj / dx_bi)^2

the squared norm of the Jacobian of the hidden representation h, not of the reconstruction. For h = s(W x + c), entry by
entry, it is sum_j s'(a_j)^2 ||W_j||^2 (the paper's form for the sigmoid, s' = h (1 - h)), which needs no Jacobian; the
function finds this case on the graph by itself. An autoencoder whose derivative is computed, but detached, or never
added to the loss, trains as if it were not there (CAE_JM.py): what is returned here is on the graph.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwright.derivatives.graph.engine import told
from gradwright.derivatives.graph.function_form import Output, evaluated
from gradwright.derivatives.graph.options import Batch
from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.graph.target import Wrt
from gradwright.derivatives.graph.way import Step
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.nodes import rule_of
from gradwright.derivatives.nodes.elementwise import same_place
from gradwright.derivatives.samples.trust import Trust
from gradwright.derivatives.second_order import require_twice
from gradwright.ground.torch_versions.nodes import read_saved
from gradwright.penalties.values import Reduction, read_reduction, reduced, squares, widened


def contractive_penalty(h: Output, wrt: Wrt, reduction: Reduction = "mean", batch: Batch = "auto") -> Tensor:
    """||dh_b/dx_b||_F^2 of every sample b, h the hidden representation of x.

    ``h``: [B, *K], of a graph that exists, or the encoder, which is then called with ``wrt``.  ``wrt``: [B, *D].
    Result: a scalar, or [B] with reduction="none"; dtype of ``wrt``, at least float32; differentiable.
    Raises: CoupledBatch where samples meet (``batch`` says what to do then), NoSecondDerivative, DerivativeError,
    UsageError.  Cost: one backward through the pointwise functions for an encoder of one linear layer; otherwise a
    differentiable Jacobian, K * D numbers a sample (``jacobian_penalty(projections=1)`` estimates it).

    >>> encode = torch.nn.Linear(2, 1)
    >>> _ = torch.nn.init.constant_(encode.weight, 3.0)
    >>> contractive_penalty(encode, wrt=torch.ones(5, 2)).item()
    18.0
    """
    read_reduction(reduction)
    h, wrt = evaluated(h, wrt, create_graph=True)
    request = read_request(h, wrt, 0, True)
    require_twice(request.way)
    layer = _only_layer(request)
    if layer is not None:
        trust = Trust(request, batch)
        trust.listen()
        if trust.proved:
            return reduced(_of_one_layer(request, layer), reduction)
    return reduced(squares(batch_jacobian(h, wrt, batch=batch, create_graph=True)), reduction)


def _only_layer(request: Request) -> Step | None:
    """The linear layer of an h = s(W x + c) with real x [B, D] and a pointwise s; None for any other h."""
    *pointwise, layer = request.way.steps or (None,)
    if layer is None or layer.name not in ("AddmmBackward0", "MmBackward0") or request.output.is_complex():
        return None
    of_input = [place for place, _ in layer.leading] == [len(layer.inputs) - 2]  # (c,) x, W
    goal = (request.target.edge.node, request.target.edge.output_nr)
    bent = all(_entry_by_entry(step, layer.shape(), goal) for step in pointwise)
    return layer if of_input and bent and len(request.rows) == 1 else None


def _entry_by_entry(step: Step, shape: torch.Size, goal: tuple[object, int]) -> bool:
    """An entry of what it puts out hangs on that entry of its inputs, none of which is x itself."""
    rule = rule_of(step.name)
    if rule is None or rule.batch is not same_place or step.shape() != shape:
        return False
    return all(into.shape == shape and into.key != goal for _, into in step.leading)


def _of_one_layer(request: Request, layer: Step) -> Tensor:
    """sum_j s'(a_bj)^2 ||W_j||^2, [B]; s' by one backward from h to a = W x + c."""
    h = request.output
    with told(h, request.target), torch.autocast(h.device.type, enabled=False):
        slopes = torch.ones_like(h)
        if h.grad_fn is not layer.node:
            (slopes,) = torch.autograd.grad(
                h, GradientEdge(layer.node, 0), slopes, retain_graph=True, create_graph=True
            )
        weight: Tensor = read_saved(layer.node, "mat2")  # [D, K], on the graph
        scale: float = read_saved(layer.node, "alpha", 1)
        return (widened(slopes).square() * (widened(weight) * scale).square().sum(0)).sum(1)
