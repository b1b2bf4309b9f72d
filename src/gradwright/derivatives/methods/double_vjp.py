"""Forward mode on a graph that exists already: the vjp of the vjp.

The vjp g(v) = v J is linear in v, so its own vjp with respect to v, given the tangent t, is J t (Townsend 2017, "A new
trick for calculating Jacobian vector products"). One backward with a graph, then one through that graph per tangent.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from gradwright.derivatives.graph.engine import run_backward, told
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.target import read_target
from gradwright.derivatives.graph.way import find_way
from gradwright.derivatives.methods.carrying import (
    columns_of,
    columns_unfit,
    in_chunks,
    one_by_one,
    plain,
    same_for_all,
    step_vmap_unfit,
)
from gradwright.derivatives.methods.method import Method
from gradwright.derivatives.nodes import rule_of
from gradwright.derivatives.second_order import lacks_second
from gradwright.derivatives.third_order import wrong_third


def _run(request: Request, directions: Tensor, chunk: int) -> Tensor:
    output, target = request.output, request.target
    cotangent = torch.zeros_like(output, requires_grad=True)
    with told(output, target), plain(output.device.type), torch.enable_grad():
        pulled = run_backward(output, target.edge, cotangent, True)
    if pulled is None or not pulled.requires_grad:
        return output.new_zeros(*output.shape[:1], request.row_count, len(directions))

    edge = get_gradient_edge(cotangent)

    def push(tangent: Tensor) -> Tensor | None:
        return run_backward(pulled, edge, tangent, request.create_graph)

    tangents = same_for_all(request, directions)
    if chunk > 1 and _fits_vmap(pulled, cotangent, request.create_graph):
        made = in_chunks(request, push, tangents, output.shape, output.dtype, chunk)
    else:
        made = one_by_one(request, push, tangents, output.shape, output.dtype)
    return columns_of(request, made)


def _fits_vmap(pulled: Tensor, cotangent: Tensor, create_graph: bool) -> bool:
    """Whether the backward of the backward can be run under vmap: its nodes are others than those of the forward."""
    way = find_way(pulled, read_target(cotangent))
    return all(step_vmap_unfit(step, create_graph) is None for step in way.steps)


def _unfit(request: Request) -> str | None:
    if why := columns_unfit(request):
        return why
    for name in request.way.names:
        if rule_of(name) is None:
            return f"{name} is not known: only where every backward is known to be linear is its vjp a jvp"
        if lacks_second(name):
            return f"{name} has no second derivative"
    if request.create_graph and (step := wrong_third(request.way)):
        return f"torch differentiates {step.name} wrongly a third time"
    return None


#: Fits where every node on the way is known and can be differentiated twice.
DOUBLE_VJP = Method("double vjp", "columns", _unfit, _run)
