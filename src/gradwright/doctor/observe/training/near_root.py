"""Faults that the graph shows near its root: what a loss is made of, by the names and shapes of nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from gradwright.doctor.session.facts.heads import HeadFault
from gradwright.ground.graphs import graph_of, output_shape
from gradwright.ground.torch_versions.nodes import read_saved

NEAR = 64  # nodes from the root on
_HOPS = 8


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


# What leaves every value as it is, or nearly so.
_VIEWS = _kinds(
    "View UnsafeView ReshapeAlias Alias T Transpose Permute Clone Squeeze Unsqueeze Slice Select Index ToCopy Expand "
    "Cat Stack Unbind Split Narrow IndexSelect Movedim Contiguous Clamp ClampMin ClampMax"
)
# What no log-probability comes out of.
_RAW = {
    "Addmm": "a linear layer",
    "Mm": "a matrix product",
    "Linear": "a linear layer",
    "Convolution": "a convolution",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softmax": "softmax",
}
_LOGITS_LOSSES = {
    "LogSoftmax": "log_softmax",
    "BinaryCrossEntropyWithLogits": "binary_cross_entropy_with_logits",
    "LogSigmoid": "logsigmoid",
}
PROBABILITIES = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_BROADCASTS = frozenset({"Sub", "Rsub", "Mul", "Div"})
_LOSSES = frozenset({"MseLoss", "SmoothL1Loss", "HuberLoss"})
_ELEMENTWISE = _BROADCASTS | _LOSSES | _kinds(
    "Add Pow Abs Neg Exp Log Log1P Expm1 Sqrt Where Clamp ClampMin ClampMax Relu LeakyRelu Softplus Maximum Minimum "
    "MaskedFill ToCopy Sigmoid Tanh Cosh Rsqrt Reciprocal"
)  # fmt: skip


@dataclass(frozen=True)
class Doubled:
    """``node``, a loss or what begins one, takes what ``inner`` made. ``only_by``: if that call made it, otherwise the
    same nodes are no fault."""

    fault: HeadFault
    node: Any
    inner: Any
    loss: str
    made_by: str
    chain: tuple[str, ...]
    same_values: bool = False
    only_by: str = ""


@dataclass(frozen=True)
class Broadcast:
    """``node`` makes a square of a column or row with a graph, ``operand``, and something that has none."""

    node: Any
    kind: str
    operand: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def by_a_loss(self) -> bool:
        """torch's own losses broadcast nothing that was meant to be: they warn."""
        return self.kind in _LOSSES


@dataclass(frozen=True)
class Constant:
    """``node`` adds a term without a graph to the loss."""

    node: Any


Found = Doubled | Broadcast | Constant


def kind(node: Any) -> str:
    """``Softmax`` of a ``SoftmaxBackward0``."""
    return str(node.name()).partition("Backward")[0]


def doubled(root: Tensor) -> Iterator[Doubled]:
    for node in graph_of([root], most=NEAR):
        this = kind(node)
        if this in ("Sub", "Mul"):
            yield from _normalised(node)
            yield from _divergence(node)
            continue
        if not (this in _LOGITS_LOSSES or this.startswith("NllLoss")):
            continue
        path = [node, *through_views(node)]
        inner, chain = path[-1], tuple(str(item.name()) for item in path)
        behind = kind(inner)
        if this.startswith("NllLoss"):
            if behind in _RAW and inner is not node:
                yield Doubled("no log-probabilities", node, inner, "nll_loss", _RAW[behind], chain)
        elif behind in PROBABILITIES:
            loss = _LOGITS_LOSSES[this]
            yield Doubled("probabilities as logits", node, inner, loss, PROBABILITIES[behind], chain)
        elif this == behind == "LogSoftmax" and inner is not node:
            same = same_classes(_dimension(node), output_shape(node), inner)
            yield Doubled("log-probabilities as logits", node, inner, "log_softmax", "log_softmax", chain, same)


def _normalised(node: Any) -> Iterator[Doubled]:
    """``p - p.logsumexp()``, as ``Categorical(logits=p)`` has it."""
    (one, _), (other, _) = (*node.next_functions, (None, 0), (None, 0))[:2]
    if one is None or other is None or kind(other) != "Logsumexp" or kind(one) != "Softmax":
        return
    if other.next_functions[0][0] is one:
        chain = tuple(str(item.name()) for item in (node, other, one))
        yield Doubled("probabilities as logits", node, one, "Categorical(logits=...)", "softmax", chain)


def _divergence(node: Any) -> Iterator[Doubled]:
    """``t * t.log() - t * p``, or ``t.exp() * (t - p)``, as ``kl_div`` has it of a target without a graph."""
    factor = _beside_constant(node)
    if factor is None or {kind(node), kind(factor)} != {"Sub", "Mul"} or _beside_constant(factor) is None:
        return
    path = [node, factor, *through_views(factor, 1)]
    if (behind := kind(path[-1])) in _RAW:
        chain = tuple(str(item.name()) for item in path)
        yield Doubled("no log-probabilities", node, path[-1], "kl_div", _RAW[behind], chain, only_by="kl_div")


def _beside_constant(node: Any) -> Any:
    """The second operand's node, if the first one has none."""
    edges = node.next_functions
    return edges[1][0] if len(edges) == 2 and edges[0][0] is None else None


def through_views(node: Any, operand: int = 0) -> Iterator[Any]:
    """What the node's input comes from, and behind it as long as only the shape changes."""
    for _ in range(_HOPS):
        node = node.next_functions[operand][0] if node.next_functions else None
        operand = 0
        if node is None:
            return
        yield node
        if kind(node) not in _VIEWS:
            return


def same_classes(axis: int, shape: tuple[int, ...] | None, inner: Any) -> bool:
    """Whether the classes that a loss has along ``axis`` of ``shape`` are those of ``inner``, a log_softmax: behind a
    view by their number."""
    own, others = _dimension(inner), output_shape(inner)
    if shape is None or others is None or shape == others:
        return axis == own
    return shape[axis : axis + 1] == others[own : own + 1]


def _dimension(node: Any) -> int:
    dim, rank = read_saved(node, "dim"), len(output_shape(node) or ())
    return int(dim - (1 << 64) if dim >= 1 << 63 else dim) % max(rank, 1)


def fresh_leaf(root: Tensor) -> Tensor | None:
    """The only leaf behind the root, if it is no parameter and everything behind the root was looked at."""
    leaves = []
    for node in graph_of([root], most=NEAR):
        leaf = getattr(node, "variable", None)
        leaves += [leaf] if leaf is not None else []
        if len(leaves) > 1 or isinstance(leaf, Parameter):
            return None
    return leaves[0] if leaves and sum(1 for _ in graph_of([root], most=NEAR)) < NEAR else None


def broadcasts(root: Tensor) -> Iterator[Broadcast]:
    """Between the root and the sums or means right behind it, and in what is elementwise behind those."""
    for node in itertools.islice(_scalars(root.grad_fn), NEAR):
        this, summed = kind(node), None
        if this in _LOSSES:
            yield from _square(node, None)
        elif node.name() in ("MeanBackward0", "SumBackward0"):
            summed = node.next_functions[0][0]
        shape = output_shape(summed) if summed is not None else None
        if shape is None or not (len(shape) == 2 and shape[0] == shape[1] >= 2):
            continue
        for inner in itertools.islice(_elementwise(summed, shape), NEAR):
            if kind(inner) in _BROADCASTS | _LOSSES:
                yield from _square(inner, shape)


def constants(root: Tensor) -> Iterator[Constant]:
    """Sums of numbers near the root, one of whose terms has no graph."""
    for node in itertools.islice(_scalars(root.grad_fn), NEAR):
        if kind(node) in ("Add", "Sub") and sum(1 for item, _ in node.next_functions if item is not None) == 1:
            yield Constant(node)


def _scalars(node: Any) -> Iterator[Any]:
    """The nodes whose results are numbers, from the root on."""
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and output_shape(node) == ():
            seen.add(node)
            yield node
            waiting += [item for item, _ in node.next_functions]


def _elementwise(node: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    waiting, seen = [node], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and kind(node) in _ELEMENTWISE and output_shape(node) == shape:
            seen.add(node)
            yield node
            waiting += [item for item, _ in node.next_functions]


def _square(node: Any, shape: tuple[int, ...] | None) -> Iterator[Broadcast]:
    """The node, if it makes an n by n of one operand of n values; ``shape``: of what it makes, if it is no sum."""
    with_graph = [(item, index) for item, index in node.next_functions[:2] if item is not None]
    if len(with_graph) != 1:
        return
    operand, index = with_graph[0]
    if kind(operand) == "Expand":  # torch's own losses broadcast first
        shape = output_shape(operand)
        operand, index = operand.next_functions[0]
    if operand is None or shape is None or kind(operand) == "Unsqueeze" or hasattr(operand, "variable"):
        return
    given = output_shape(operand, index)
    if len(shape) == 2 and shape[0] == shape[1] >= 2 and given in (shape[:1], (shape[0], 1)):
        yield Broadcast(node, kind(node), given, shape)
