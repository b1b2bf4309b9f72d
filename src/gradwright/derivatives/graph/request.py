"""What was asked for, read once: output, target, where their batches lie, and the way between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradwright.derivatives.graph.lines import HOW_TO_LEARN_LINES, line_of
from gradwright.derivatives.graph.recording import recording
from gradwright.derivatives.graph.target import Target, Wrt, read_target, require_ordinary, short_name
from gradwright.derivatives.graph.way import Way, find_way
from gradwright.errors import DerivativeError, UsageError
from gradwright.ground.graphs import graph_of, nodes_behind
from gradwright.ground.torch_versions.capability import require
from gradwright.ground.torch_versions.engine import ENGINE
from gradwright.ground.torch_versions.nodes import NODES
from gradwright.ground.torch_versions.tensors import version_of

#: One axis for both, or the output's and the target's; None for a target that has no batch (a parameter).
BatchDim: TypeAlias = int | tuple[int, int | None]


@dataclass(frozen=True, eq=False)
class Request:
    """A Jacobian to be made: [B, *K, *D], one block per sample.

    ``output``: [B, *K], the batch first.  ``target_axis``: where the batch lies in the target, None where it has none
    (then D is the whole of it).
    """

    output: Tensor
    target: Target
    target_axis: int | None
    way: Way
    create_graph: bool

    @property
    def samples(self) -> int:
        return self.output.shape[0]

    @property
    def rows(self) -> torch.Size:
        """K, the shape of one sample's output."""
        return self.output.shape[1:]

    @property
    def columns(self) -> torch.Size:
        """D, the shape of one sample's target."""
        shape = self.target.shape
        if self.target_axis is None:
            return shape
        return shape[: self.target_axis] + shape[self.target_axis + 1 :]

    @property
    def row_count(self) -> int:
        return math.prod(self.rows)

    @property
    def column_count(self) -> int:
        return math.prod(self.columns)

    def batch_first(self, pulled: Tensor) -> Tensor:
        """A cotangent of the target, its batch axis moved to the front."""
        return pulled if not self.target_axis else pulled.movedim(self.target_axis, 0)


def read_request(output: Tensor, wrt: Wrt, batch_dim: BatchDim, create_graph: bool) -> Request:
    """Read and judge the arguments.  Raises: UsageError, DerivativeError, each saying what to do."""
    if not isinstance(output, Tensor):
        raise UsageError(f"y is a {type(output).__name__}: give the tensor whose derivatives are wanted")
    require(ENGINE, NODES)
    require_ordinary(output, "y")
    if output.ndim == 0:
        raise UsageError(
            "y is a scalar, so it has no batch axis: give the values per sample, before the sum or mean over the batch "
            "(reduction='none'), or use torch.autograd.grad for the gradient of one number"
        )
    target = read_target(wrt)
    output_axis, target_axis = _axes(output, target, batch_dim)
    if target_axis is not None and target.shape[target_axis] != output.shape[output_axis]:
        rows = target.shape[target_axis]
        raise UsageError(
            f"y has {output.shape[output_axis]} samples along axis {output_axis} of {list(output.shape)}, wrt has "
            f"{rows} along axis {target_axis} of {list(target.shape)}: "
            + (
                "its one row is shared by all samples; expand it before it is used (z = z.expand(B, ...))"
                if rows == 1 and target_axis == 0
                else "say where each has its batch with batch_dim=(axis of y, axis of wrt), or (axis of y, None) for a "
                "wrt that all samples share"
            )
        )
    if output_axis:
        with recording():  # this view is of the graph
            output = output.movedim(output_axis, 0)
    return Request(output, target, target_axis, require_way(output, target), create_graph)


def require_way(output: Tensor, target: Target) -> Way:
    """The steps between.  Raises: DerivativeError where there is no way, or one with a step that has no derivative."""
    way = find_way(output, target)
    if not way.found:
        raise DerivativeError(_why_no_way(output, target))
    if way.names & _WITHOUT_DERIVATIVE.keys():
        step = next(step for step in way.steps if step.name in _WITHOUT_DERIVATIVE)
        raise DerivativeError(
            f"an operation between y ({list(output.shape)}) and {target.describe()} has no derivative: autograd "
            f"recorded {step.name} for it, {_WITHOUT_DERIVATIVE[step.name]}. Its result has the shape "
            f"{list(step.shape())}; {line_of(step.node) or HOW_TO_LEARN_LINES}. Register its gradient "
            "(torch.library.register_autograd), give it by gw.custom_gradient, or write it in other operations"
        )
    return way


#: Nodes that stand for an operation nobody gave a gradient for, and what they do.
_WITHOUT_DERIVATIVE = {
    "WarnNotImplemented": "which warns and passes no gradient on, as if it were zero",
    "NotImplemented": "which raises when it is reached",
}


def _axes(output: Tensor, target: Target, batch_dim: BatchDim) -> tuple[int, int | None]:
    given = batch_dim if isinstance(batch_dim, tuple) else (batch_dim, None if target.unbatched else batch_dim)
    if len(given) != 2 or type(given[0]) is not int or not (given[1] is None or type(given[1]) is int):
        raise UsageError(f"batch_dim={batch_dim!r}: give one axis, or (axis of y, axis of wrt or None)")
    for name, axis, dims in (("y", given[0], output.ndim), ("wrt", given[1], len(target.shape))):
        if axis is not None and not -dims <= axis < dims:
            raise UsageError(
                f"batch_dim={batch_dim} names axis {axis} of {name}, which has {dims} axes"
                + (": a wrt that all samples share is said by batch_dim=(axis of y, None)" if name == "wrt" else "")
            )
    axis = given[1]
    return given[0] % output.ndim, None if axis is None else axis % len(target.shape)


def _why_no_way(output: Tensor, target: Target) -> str:
    if not output.requires_grad:
        if not (output.is_floating_point() or output.is_complex()):
            return f"y has the dtype {output.dtype}: only floating point and complex values have derivatives"
        return (
            f"y ({list(output.shape)}) belongs to no graph: it was computed under torch.no_grad() or "
            "torch.inference_mode(), or detached, or nothing it was computed from requires gradients"
        )
    made_by = "a leaf" if output.grad_fn is None else short_name(output.grad_fn)
    told = f"no way leads from y ({list(output.shape)}, {made_by}) back to {target.describe()}: "
    beside = _made_beside(output, target)
    if target.tensor is not None and (changes := version_of(target.tensor)) > 0:
        told += (
            f"it has been changed in place ({changes} times), so the tensor may stand for a newer value "
            "than y was computed from; keep that point of the graph with gw.capture(module) or "
            "torch.autograd.graph.get_gradient_edge(z) before the change. Or "
        )
    if beside is not None:
        return told + (
            f"wrt was itself made, by {short_name(target.node)}, from a value that y depends on "
            f"({short_name(beside)}), and y was not computed from what was made (a view or a copy taken beside). "
            "Differentiate with respect to that value, or compute y from wrt"
        )
    return told + (
        "y was computed from another tensor (an earlier forward, a detached or re-wrapped one). Differentiate with "
        "respect to the very tensor that y's computation used"
    )


def _made_beside(output: Tensor, target: Target) -> Any:
    """The node of the value nearest to ``wrt`` that both it and y were made from; None where there is none."""
    behind = set(graph_of([output]))
    return next((node for node in nodes_behind([target.node]) if node in behind), None)
