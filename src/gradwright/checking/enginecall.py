"""One real call, through the engine, at the arguments' own dtypes, and the custom nodes in its graph.

For what is looked at beside the values: what is changed, what is returned before the engine repairs it, what is kept
alive. Values are compared in a ``Trial``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from gradwright.checking import copies
from gradwright.checking.chance import signed
from gradwright.checking.context import is_function
from gradwright.checking.trial import Handed, tensors_in
from gradwright.ground.graphs import graph_of
from gradwright.ground.torch_versions.nodes import forward_class

MOST_NODES = 20_000


def hand_out(args: Sequence[Any], wanted: Sequence[int]) -> Handed:
    """Fresh copies of ``args``; those ``wanted`` require a gradient, inside a graph where a forward may write on them.

    Leaves where they are Parameters or tied to an object (NOTE [one structure]). Cost: a copy of every tensor.
    """
    copied = copies.fresh_copy(args)
    handed, targets = copied.args, {}
    for index in wanted:
        leaf = handed[index].requires_grad_()
        targets[index] = leaf
        if index not in copied.tied and not isinstance(leaf, torch.nn.Parameter):
            handed[index] = copies.copy_in_graph(leaf)
            if copies.is_expanded(leaf):
                targets[index] = handed[index]
    return Handed(handed, targets)


def call(subject: Any, args: Sequence[Any]) -> Any:
    return subject.apply(*args) if is_function(subject) else subject(*args)


def receiving(subject: Any, result: Any, used: Sequence[bool] | None = None) -> list[Tensor]:
    """The output tensors that can receive a cotangent; ``used``: one bool per output of a Function."""
    if is_function(subject):
        items = list(result) if isinstance(result, tuple) else [result]
        if used is not None and len(used) == len(items):
            items = [item for item, use in zip(items, used, strict=True) if use]
        outputs = [item for item in items if isinstance(item, Tensor)]
    else:
        outputs = tensors_in(result)
    return [output for output in outputs if output.requires_grad]


def draw_cotangents(outputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Signed random cotangents, one per output, of its dtype and on its device."""
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for output in outputs:
        cotangent = signed(output.shape, generator)
        if output.is_complex():
            cotangent = torch.complex(cotangent, signed(output.shape, generator))
        drawn.append(cotangent.to(output.device, output.dtype))
    return drawn


@dataclass(frozen=True)
class CustomNode:
    """A node that a custom Function left in the graph: its ``ctx`` is the node itself."""

    node: Any
    function: type

    @property
    def name(self) -> str:
        return self.function.__qualname__.replace("<locals>.", "").split(".")[-1]


def custom_nodes(outputs: Sequence[Tensor]) -> list[CustomNode]:
    """The nodes of custom Functions behind ``outputs``, each once, nearest first.

    Cost: a walk over the graph, at most ``MOST_NODES`` nodes.
    """
    found = []
    for node in graph_of(outputs, most=MOST_NODES):
        function = forward_class(node)
        if isinstance(node, BackwardCFunction) and function is not None and function.__module__ != copies.__name__:
            found.append(CustomNode(node, function))
    return found


def leaves(outputs: Sequence[Tensor]) -> list[Tensor]:
    """The leaves that require a gradient behind ``outputs``, each once. Cost: as ``custom_nodes``."""
    return [node.variable for node in graph_of(outputs, most=MOST_NODES) if hasattr(node, "variable")]


def is_behind(node: Any, tensor: Tensor) -> bool:
    """Is ``node`` in the graph of ``tensor``? Cost: as ``custom_nodes``."""
    return any(other is node for other in graph_of([tensor], most=MOST_NODES))
