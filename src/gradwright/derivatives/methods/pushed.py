"""Forward mode along a graph that exists: tangents pushed from the target to the output, node by node.

The recorded nodes hold what their derivatives need (a tanh its result, a linear layer its weight), so directions can be
carried forward without running the model again, and without autograd's engine. One push costs about as much as the
forward; D of them go through together.

NOTE [Pushing hears no hook]: hooks that change a cotangent belong to backwards, and are not seen here. What is pushed
is right only where no hook stands on the way, or where one vjp agrees with it (guard.py, `bypasses`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from gradwright.derivatives.graph.engine import told
from gradwright.derivatives.graph.request import Request
from gradwright.derivatives.graph.target import short_name
from gradwright.derivatives.graph.way import Step, Way
from gradwright.derivatives.methods.carrying import columns_of, columns_unfit, plain, same_for_all
from gradwright.derivatives.methods.method import Method
from gradwright.derivatives.nodes import Jet, rule_of
from gradwright.errors import DerivativeError
from gradwright.ground.torch_versions.nodes import output_metadata, saved_names

Key = tuple[Any, int]

#: Nodes whose rules know of the first output only; a double backward of GroupNorm reads the others.
WITH_STATISTICS = frozenset(
    f"Native{name}Backward0" for name in ("GroupNorm", "LayerNorm", "BatchNorm", "BatchNormLegit")
)


def why_not_pushed(way: Way, order: int) -> str | None:
    """The step that nothing is known of, in one sentence; None where every step can be pushed through."""
    for step in way.steps:
        rule = rule_of(step.name)
        if rule is None or not rule.can_push(step, order):
            return f"nothing is known of how to push derivatives of order {order} through {step.name}"
        if _axis_of_none(step):
            return f"{step.name} names an axis of a tensor without axes"
    if way.names & WITH_STATISTICS:
        read = {into.key for step in way.steps for _, into in step.leading}
        for node, number in {*read, (way.output.grad_fn, way.output.output_nr)}:
            if number and short_name(node) in WITH_STATISTICS:
                return f"the mean or deviation that {short_name(node)} put out is used"
    return None


def _axis_of_none(step: Step) -> bool:
    """Whether the operation names axis 0 of a 0-d tensor, as torch allows: of directions [P] that would be another."""
    bare = any(not into.shape for _, into in step.leading)
    return bare and any(name.startswith("dim") for name in saved_names(step.node))


def push_jets(request: Request, first: Tensor, second: Tensor | None = None, order: int = 1) -> Jet:
    """Carry directions from the target to the output, along the recorded nodes.

    ``first``: [P, *target], one direction each.  ``second``: [*target], or None for zero.
    Result: ``first`` [P, B, *K], and for ``order`` 2 ``second`` [B, *K]: sum_p d2y[first_p, first_p] + dy[second].
    Differentiable where ``request.create_graph``.  Dtype: that of each node, so a graph made under autocast is right.
    Cost: about P forwards, no backward; jets are let go when the last step that reads them is done.
    Raises: DerivativeError where the graph was freed, or a saved tensor changed in place.
    Only where ``why_not_pushed`` is None.  See NOTE [Pushing hears no hook].
    """
    way, output = request.way, request.output
    with told(output, request.target), torch.set_grad_enabled(request.create_graph), plain(output.device.type):
        goal = (request.target.edge.node, request.target.edge.output_nr)
        jets: dict[Key, Jet] = {goal: Jet(first, second)}
        readers = Counter(into.key for step in way.steps for _, into in step.leading)
        end = goal if not way.steps else (output.grad_fn, output.output_nr)
        readers[end] += 1
        for step in reversed(way.steps):
            _push(step, jets, readers, order)
        return jets[end]


def _push(step: Step, jets: dict[Key, Jet], readers: Counter[Key], order: int) -> None:
    """One step: the jets of its outputs from those of its inputs, which are let go if nobody else reads them."""
    rule = rule_of(step.name)
    assert rule is not None and rule.push is not None, step.name
    made = rule.push(step, [jets[into.key] if into.leads else None for into in step.inputs], order)
    for _, into in step.leading:
        readers[into.key] -= 1
        if not readers[into.key]:
            del jets[into.key]
    for number in range(len(output_metadata(step.node))):
        if readers[step.node, number]:
            if number not in made:
                raise DerivativeError(
                    f"nothing is known of how to push derivatives to output {number} of {step.name}: "
                    'use mode="reverse", or gw.vjp'
                )
            jets[step.node, number] = _of_node(step, number, made[number])


def _of_node(step: Step, number: int, jet: Jet) -> Jet:
    """The jet in the dtype that the node put out."""
    dtype = output_metadata(step.node)[number].dtype
    assert jet.first.shape[1:] == step.shape(number), (step.name, jet.first.shape, step.shape(number))
    if jet.first.dtype == dtype and (jet.second is None or jet.second.dtype == dtype):
        return jet
    return Jet(jet.first.to(dtype), None if jet.second is None else jet.second.to(dtype))


def _run(request: Request, directions: Tensor, chunk: int) -> Tensor:
    count, shape = len(directions), request.output.shape
    given = same_for_all(request, directions)
    parts = torch.split(given, chunk) if count > chunk else (given,)
    if not count:
        pushed = request.output.new_zeros(0, *shape)
    elif len(parts) == 1:
        pushed = push_jets(request, given).first.contiguous()  # samples that share a column get each their own
    elif request.create_graph:
        pushed = torch.cat([push_jets(request, part).first for part in parts])
    else:  # NOTE [Results are written once]
        pushed = torch.empty(count, *shape, dtype=request.output.dtype, device=request.output.device)
        for number, part in enumerate(parts):
            pushed[number * chunk : number * chunk + len(part)] = push_jets(request, part).first
    return columns_of(request, pushed)


def _unfit(request: Request) -> str | None:
    return columns_unfit(request) or why_not_pushed(request.way, 1)


#: Columns; memory: P tangents of the widest layer at a time.
PUSHED = Method("pushed", "columns", _unfit, _run)
