"""From torch's graph to ours: sizes become expressions, writes to fresh tensors become plain values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradwright.functions.derive.costs import is_view_call
from gradwright.functions.derive.graph import Graph, Node
from gradwright.functions.derive.sizes import expression_of
from gradwright.ground.torch_versions.operators import OpOverload, overload_name, schema_of

aten = torch.ops.aten
LITERAL = 16  # numbers of a tensor without a name that are written out
SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


class Mutation(Exception):
    """The forward writes in place, to more than a tensor that nobody else looks at."""


class Reader:
    """Reads the nodes of an fx graph one by one into ``graph``; ``known``: what each became.

    ``dropped``: those that stand for their argument.
    """

    def __init__(
        self, traced: Any, graph: Graph, names: Sequence[str], seen: dict[str, Any], dropped: set[Any]
    ) -> None:
        self.traced, self.graph, self.names, self.seen, self.dropped = traced, graph, names, seen, dropped
        self.known: dict[Any, Any] = {}
        self.roots: dict[Any, Any] = {}  # what a write returns is the tensor that it was made to
        self.captured: dict[str, torch.Tensor] = {}

    def read(self, node: Any) -> None:
        value = node.meta.get("val")
        if node.op == "placeholder":
            self.known[node] = Node("input", (), {}, value, self.names[len(self.graph.inputs)])
            self.graph.inputs.append(self.known[node])
        elif node.op == "get_attr":
            self.known[node] = self._constant(getattr(self.traced, node.target))
        elif node.op == "output":
            results = [self._old(leaf) for leaf in node.args[0]]
            count = self.seen["counts"]
            self.graph.outputs, self.graph.gradients = results[:count], results[count:]
        elif node in self.seen["cotangents"]:
            self.known[node] = Node("cotangent", (), {}, value, "grad_output")
        elif node in self.dropped:
            self.known[node] = self.known[node.args[0]]
        elif isinstance(value, SIZES):
            self.known[node] = expression_of(value)
        else:
            self.known[node] = self._call(node)

    def _old(self, leaf: Any) -> Any:
        return self.known[leaf] if isinstance(leaf, torch.fx.Node) else expression_of(leaf)

    def _constant(self, tensor: torch.Tensor) -> Node:
        """A tensor from outside; one number is written out."""
        if tensor.numel() == 1 and tensor.dim() == 0 and not tensor.requires_grad:
            return self.graph.make(aten.scalar_tensor.default, tensor.item(), dtype=tensor.dtype, device=tensor.device)
        name = self.seen["outside"].name_of(tensor)
        if not name and tensor.numel() <= LITERAL and bool(torch.isfinite(tensor).all()):
            return Node(
                "constant", (tensor.tolist(),), {}, self.graph.fake_mode.from_tensor(tensor, static_shapes=True)
            )
        name = name or f"captured_{len(self.captured)}"
        self.captured[name] = tensor
        return Node("constant", (), {}, self.graph.fake_mode.from_tensor(tensor, static_shapes=True), name)

    def _call(self, node: Any) -> Node:
        args, kwargs = plain(map_fx(node.args, self._old)), plain(map_fx(node.kwargs, self._old))
        if node.target is operator.getitem:
            made = self.graph.intern("item", args, {}, value=node.meta.get("val"))
        elif schema_of(node.target).is_mutable:
            made = self._written(node, args, kwargs)
        else:
            made = self.graph.intern(node.target, args, kwargs, value=node.meta.get("val"))
        if not made.is_leaf:
            made.name = made.name or self.seen["names"].get(node, "")
            made.hint = made.hint or self.seen["hints"].get(node, "")
        return made

    def _written(self, node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        """A write to a tensor that was made just before, as the operation without the write."""
        root = self._root(node.args[0])
        packet = node.target.overloadpacket.__name__
        plain_packet = getattr(aten, packet.removesuffix("_"), None)
        if plain_packet is None or packet == plain_packet.__name__ or not self._is_alone(root):
            raise Mutation(packet)
        made = self.graph.make(getattr(plain_packet, overload_name(node.target)), *args, **kwargs)
        self.roots[node] = root
        for other in self.known:
            if self._root(other) is root:
                self.known[other] = made
        return made

    def _root(self, node: Any) -> Any:
        return self.roots.get(node, node)

    def _is_alone(self, root: Any) -> bool:
        """Is it a tensor of its own, and has no view of it been taken?"""
        if root.op != "call_function" or not isinstance(root.target, OpOverload):
            return False
        if is_view_call(root.target):
            return False
        return not any(
            isinstance(other.target, OpOverload)
            and is_view_call(other.target)
            and any(self._root(parent) is root for parent in other.all_input_nodes)
            for other in self.known
        )


def map_fx(tree: Any, change: Callable[[Any], Any]) -> Any:
    return torch.fx.node.map_aggregate(tree, change)


def plain(tree: Any) -> Any:
    """Immutable lists and dicts of fx as plain ones."""
    if isinstance(tree, tuple):
        return tuple(plain(item) for item in tree)
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    if isinstance(tree, dict):
        return {key: plain(item) for key, item in tree.items()}
    return tree
