"""What is differentiated with respect to what: a point of a recorded graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gradwright.derivatives.graph.captured import Captured
from gradwright.derivatives.graph.recording import recording
from gradwright.errors import UsageError
from gradwright.ground.torch_versions.fakes import FakeTensor
from gradwright.ground.torch_versions.levels import is_functorch_wrapped_tensor
from gradwright.ground.torch_versions.nodes import output_metadata

Wrt: TypeAlias = Tensor | GradientEdge | Captured


@dataclass(frozen=True)
class Target:
    """The point that derivatives are taken with respect to, whichever way the caller named it.

    ``edge``: where it stands in the graph.  ``shape``, ``dtype``, ``device``: those of the value that stood there.
    ``tensor``: the tensor itself, where the caller gave one.  ``unbatched``: a parameter, which no sample owns.
    """

    edge: GradientEdge
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    tensor: Tensor | None
    unbatched: bool

    @property
    def node(self) -> Any:
        return self.edge.node

    def describe(self) -> str:
        return f"wrt, {list(self.shape)} after {short_name(self.node)}"


_NAMES: dict[type, str] = {}


def short_name(node: Any) -> str:
    """The name of a node as people write it.

    >>> short_name(torch.ones(1, requires_grad=True).exp().grad_fn)
    'ExpBackward0'
    """
    kind = type(node)
    name = _NAMES.get(kind)
    if name is None:
        name = str(node.name()).rpartition("::")[2]
        if kind.__module__ == "builtins" and kind.__name__ == name:  # a kind of torch's own, with this one name
            _NAMES[kind] = name
    return name


def read_target(wrt: Wrt) -> Target:
    """The point of the graph that ``wrt`` names: a tensor, a parameter, a ``GradientEdge`` or a captured output.

    Raises: UsageError for anything else, for a tensor that needs no gradient, for a capture that caught nothing.
    """
    if isinstance(wrt, Tensor):
        require_ordinary(wrt, "wrt")
        if not wrt.requires_grad:
            raise UsageError(
                f"wrt, a tensor of shape {list(wrt.shape)} and {wrt.dtype}, has requires_grad=False, so no graph leads "
                "to it: call wrt.requires_grad_() before y is computed, and don't detach it on the way"
            )
        unbatched = isinstance(wrt, torch.nn.Parameter)
        with recording():  # a leaf has no edge where nothing is recorded
            edge = get_gradient_edge(wrt)
        return Target(edge, wrt.shape, wrt.dtype, wrt.device, wrt, unbatched)
    edge = wrt.edge if isinstance(wrt, Captured) else wrt
    if isinstance(edge, GradientEdge):
        seen = output_metadata(edge.node)[edge.output_nr]
        if seen.is_nested_tensor:
            raise UsageError(_nested("wrt"))
        return Target(edge, torch.Size(seen.shape), seen.dtype, seen.device, None, False)
    raise UsageError(
        f"wrt is a {type(wrt).__name__}: give a tensor of the graph, a parameter, a torch.autograd.graph.GradientEdge, "
        "or what gw.capture(module) caught"
    )


def require_ordinary(tensor: Tensor, name: str) -> None:
    """Raises: UsageError for a tensor without values of its own or without plain axes: what torch.func's transforms or
    torch's tracers hand to a function, sparse and nested tensors.
    """
    if is_functorch_wrapped_tensor(tensor):
        raise UsageError(
            f"{name} is inside a transform of torch.func (vmap, grad, jvp, ...): call this outside of it, on a graph "
            "of plain tensors; or stay with torch.func and use torch.func.vmap(torch.func.jacrev(f))"
        )
    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        raise UsageError(f"{name} is a {type(tensor).__name__} on {tensor.device}, which has a shape and no values")
    if tensor.is_nested:
        raise UsageError(_nested(name))
    if tensor.layout is not torch.strided:
        raise UsageError(
            f"{name} has the layout {tensor.layout}: derivatives of a batch need a dense tensor; compute with "
            f"{name}.to_dense()"
        )


def _nested(name: str) -> str:
    return (
        f"{name} is a nested tensor, whose samples have different shapes: there is no [B, *K, *D] for them; compute "
        "with torch.nested.to_padded_tensor(...), or take the derivatives of one sample after the other"
    )
