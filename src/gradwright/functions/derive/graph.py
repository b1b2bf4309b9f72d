"""The small graph that is simplified, cut and printed: operations on tensors, with sizes as symbols.

A node is one call of a torch operation. Its arguments are nodes, numbers, dtypes, lists of these, and sizes: a size
that follows the inputs is a sympy expression, one that can't change is an int.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.sizes import expression_of, symbolic
from gradwright.ground.torch_versions.fakes import FakeTensorMode
from gradwright.ground.torch_versions.operators import packets_named
from gradwright.ground.torch_versions.tracing import ShapeEnv, enable_python_dispatcher

aten = torch.ops.aten
_RESHAPES = tuple(packet.default for packet in (aten.view, *packets_named("_unsafe_view")))


class Node:
    """``op``: an OpOverload, or one of the strings "input", "cotangent", "constant" (without a name: its numbers are
    its argument) and "item" (of a tuple).

    ``value``: a fake tensor (or tuple of them): shape, strides, dtype and device, without data. ``name``: what the user
    calls it, or ""; ``hint``: what it may be called, if it needs a name at all.
    """

    __slots__ = ("args", "hint", "kwargs", "name", "op", "value")

    def __init__(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any, name: str = "") -> None:
        self.op, self.args, self.kwargs, self.value, self.name = op, args, kwargs, value, name
        self.hint = ""

    def __repr__(self) -> str:
        return f"<{self.name or self.op}>"

    @property
    def parents(self) -> list[Node]:
        return list(nodes_in((self.args, self.kwargs)))

    @property
    def first(self) -> Node:
        """The first argument, which is a node."""
        found: Node = self.args[0]
        return found

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(expression_of(size) for size in self.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.value.dtype
        return dtype

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, torch.Tensor)

    @property
    def is_leaf(self) -> bool:
        return self.op in ("input", "cotangent", "constant")

    @property
    def is_random(self) -> bool:
        return not isinstance(self.op, str) and torch.Tag.nondeterministic_seeded in self.op.tags

    def is_a(self, *ops: Any) -> bool:
        """Is this a call of one of the operations (overloads, or packets of them)?"""
        if isinstance(self.op, str):
            return False
        return any(self.op is op or self.op.overloadpacket is op for op in ops)


def nodes_in(tree: Any) -> Iterator[Node]:
    """Every node in an argument: lists, tuples and dicts are looked into."""
    if isinstance(tree, Node):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from nodes_in(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from nodes_in(item)


def map_nodes(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The argument with ``change`` applied to each leaf, nodes and plain values alike."""
    if isinstance(tree, tuple):
        return tuple(map_nodes(item, change) for item in tree)
    if isinstance(tree, list):
        return [map_nodes(item, change) for item in tree]
    if isinstance(tree, dict):
        return {key: map_nodes(item, change) for key, item in tree.items()}
    return change(tree)


@dataclass
class Graph:
    """A forward and its vjp in one: ``outputs`` of the inputs, ``gradients`` (None: no gradient) of both.

    ``cotangents``: one per output, None where the output can't have one.
    """

    inputs: list[Node]
    cotangents: list[Node | None]
    outputs: list[Node]
    gradients: list[Node | None]
    fake_mode: FakeTensorMode
    shape_env: ShapeEnv
    interned: dict[Any, Node] = field(default_factory=dict)

    def make(self, op: Any, *args: Any, name: str = "", **kwargs: Any) -> Node:
        """The node of a call; the same call of the same arguments is the same node."""
        return self.intern(op, args, kwargs, name=name)

    def intern(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, name: str = "",
               value: Any = None) -> Node:  # fmt: skip
        """``make``, where the fake result may be known already."""
        key = None
        if isinstance(op, str) or (torch.Tag.nondeterministic_seeded not in op.tags and op is not aten.detach.default):
            key = (op, frozen(args), frozen(kwargs))
            if (known := self.interned.get(key)) is not None:
                known.name = known.name or name
                return known
        node = Node(op, args, kwargs, self.evaluated(op, args, kwargs) if value is None else value, name)
        if key is not None:
            self.interned[key] = node
        return node

    def evaluated(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The fake result of a call: shape, dtype and device, as torch itself tells them."""
        if op == "item":
            return args[0].value[args[1]]

        def plain(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                return leaf.value
            return symbolic(leaf, self.shape_env) if isinstance(leaf, sympy.Expr) else leaf

        if op in _RESHAPES:
            op = aten.reshape.default  # the same values, whatever the layout
        with self.fake_mode, enable_python_dispatcher(), torch.no_grad():
            return op(*map_nodes(args, plain), **map_nodes(kwargs, plain))

    @property
    def results(self) -> list[Node]:
        return [*self.outputs, *(gradient for gradient in self.gradients if gradient is not None)]

    def nodes(self) -> list[Node]:
        """What the results need, in an order in which it can be computed."""
        return in_order(self.results)

    def of_cotangents(self) -> set[Node]:
        """The nodes that depend on a cotangent: the backward, whatever else is recomputed in it."""
        return depending([node for node in self.cotangents if node is not None], self.nodes())


def depending(sources: Iterable[Node], order: Sequence[Node]) -> set[Node]:
    found = set(sources)
    for node in order:
        if any(parent in found for parent in node.parents):
            found.add(node)
    return found


def in_order(results: Iterable[Node], stop: Iterable[Node] = ()) -> list[Node]:
    """The nodes that ``results`` need, parents first; those in ``stop`` are there already and stand for themselves."""
    known, order = set(stop), []
    waiting = [(node, False) for node in reversed(list(results))]
    while waiting:
        node, ready = waiting.pop()
        if node in known:
            continue
        if ready:
            known.add(node)
            order.append(node)
        else:
            waiting.append((node, True))
            waiting += [(parent, False) for parent in reversed(node.parents) if parent not in known]
    return order


def frozen(tree: Any) -> Any:
    """A hashable twin of an argument, in which 1, 1.0 and True differ."""
    if isinstance(tree, Node):
        return id(tree)
    if isinstance(tree, (list, tuple)):
        return tuple(frozen(item) for item in tree)
    if isinstance(tree, dict):
        return tuple((key, frozen(item)) for key, item in sorted(tree.items()))
    if isinstance(tree, float):
        return (float, repr(tree))
    return (type(tree), tree)
