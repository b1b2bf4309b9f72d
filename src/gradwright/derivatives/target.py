"""What is differentiated with respect to what: a point of a recorded graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gradwright.derivatives.captured import Captured
from gradwright.errors import UsageError

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


def short_name(node: Any) -> str:
    """The name of a node as people write it.

    >>> short_name(torch.ones(1, requires_grad=True).exp().grad_fn)
    'ExpBackward0'
    """
    return str(node.name()).rpartition("::")[2]


def read_target(wrt: Wrt) -> Target:
    """The point of the graph that ``wrt`` names: a tensor, a parameter, a ``GradientEdge`` or a captured output.

    Raises: UsageError for anything else, for a tensor that needs no gradient, for a capture that caught nothing.
    """
    if isinstance(wrt, Tensor):
        if not wrt.requires_grad:
            raise UsageError(
                f"wrt, a tensor of shape {list(wrt.shape)}, has requires_grad=False, so no graph leads to it: "
                "call wrt.requires_grad_() before y is computed, and don't detach it on the way"
            )
        unbatched = isinstance(wrt, torch.nn.Parameter)
        return Target(get_gradient_edge(wrt), wrt.shape, wrt.dtype, wrt.device, wrt, unbatched)
    edge = wrt.edge if isinstance(wrt, Captured) else wrt
    if isinstance(edge, GradientEdge):
        seen = edge.node._input_metadata[edge.output_nr]
        return Target(edge, torch.Size(seen.shape), seen.dtype, seen.device, None, False)
    raise UsageError(
        f"wrt is a {type(wrt).__name__}: give a tensor of the graph, a parameter, a torch.autograd.graph.GradientEdge, "
        "or what gw.capture(module) caught"
    )
