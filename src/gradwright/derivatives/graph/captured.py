"""The output of a module, kept as a point of the graph: ``gw.capture(model.layer2)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from gradwright.derivatives.graph.recording import recording
from gradwright.errors import UsageError
from gradwright.ground.hooks import beside_the_graph
from gradwright.ground.tensors import tensors_in


class Captured:
    """What a module put out while it was watched: the point of the graph, not the value.

    ``edge``: the ``GradientEdge`` of its output, as it was when the module returned.  A change in place afterwards
    does not move it.  The value is not kept alive.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = type(module).__name__
        self._edges: list[GradientEdge] = []
        self._without_graph = 0

    def _keep(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        tensors = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
        with recording():  # of a leaf, too
            self._edges += [get_gradient_edge(tensor) for tensor in tensors]
        self._without_graph += not tensors

    @property
    def edge(self) -> GradientEdge:
        """The one output.  Raises: UsageError where there was none, or more than one."""
        if len(self._edges) == 1:
            return self._edges[0]
        if self._edges:
            raise UsageError(
                f"gw.capture caught {len(self._edges)} outputs of {self._module}: it was called more than once, or "
                f"returns several tensors; choose one, as in captured[0]"
            )
        if self._without_graph:
            raise UsageError(
                f"the output of {self._module} belongs to no graph: neither its inputs nor its parameters require "
                "gradients, or it ran under torch.no_grad()"
            )
        raise UsageError(f"gw.capture caught nothing: {self._module} was not called inside the with block")

    def __getitem__(self, index: int) -> GradientEdge:
        return self._edges[index]

    def __len__(self) -> int:
        return len(self._edges)


@contextmanager
def capture(module: nn.Module) -> Iterator[Captured]:
    """Keep the point of the graph where ``module`` puts out its result, to differentiate with respect to it.

    Use: ``with gw.capture(model.layer2) as z: y = model(x)``, then ``gw.batch_jacobian(y, wrt=z)``.
    Several calls or outputs: ``z[0]``, ``z[1]``, in the order of the calls.
    Cost: one reference per output; the module's result is what it would be.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> with capture(net[1]) as z:
    ...     y = net(torch.ones(5, 3))
    >>> torch.autograd.grad(y.sum(), z.edge)[0].shape
    torch.Size([5, 4])
    """
    captured = Captured(module)
    handle = beside_the_graph(module.register_forward_hook(captured._keep))
    try:
        yield captured
    finally:
        handle.remove()
