"""Which residuals to save: a minimum cut between the forward and the backward.

Every tensor that the backward needs is saved (its bytes are paid), or computed again from others that are at hand
(its work is paid, at a price in bytes per operation). The cheapest choice of all is a minimum cut [1], here with the
price of work as well; several prices are tried, and of those within the bounds the one with the best of both is
taken.

[1] Chen et al., Training deep nets with sublinear memory cost, arXiv:1604.06174, asks the question; the min-cut answer
is that of torch's own min_cut_rematerialization_partition (functorch, 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx  # type: ignore[import-untyped]
import torch

from gradwright.functions.derive.costs import base_of, bytes_of, is_heavy, is_view, work_of
from gradwright.functions.derive.graph import Graph, Node, in_order

# Bytes that one operation of recomputing is worth: from "never compute anything twice" to "save as little as can be".
PRICES = (1e6, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.03, 0.0)
# What is alive anyway (an input, an output) is preferred to what lives for the backward alone.
ALIVE = 0.9
# Of two choices within the bounds: saving all of autograd's bytes would be worth this part of its work.
BYTES = 0.5


@dataclass(frozen=True)
class Choice:
    """``saved``: what the forward keeps. ``recomputed``: what it has computed and the backward computes again.
    ``bytes``: of distinct storage; ``work``: of the backward, in operations, ``again``: the part computed twice."""

    saved: tuple[Node, ...]
    recomputed: tuple[Node, ...]
    bytes: int
    work: float
    again: float


def choose(graph: Graph, *, most_work: float, most_bytes: int, only_inputs: bool = False) -> Choice:
    """Residuals whose backward takes at most ``most_work``, weighing work against bytes; failing that, least work.

    ``most_bytes``: what autograd saves, which is not exceeded if any choice stays below. ``only_inputs``: save inputs
    alone, whatever has to be computed again. Cost: a few minimum cuts, of milliseconds.
    """
    backward = graph.of_cotangents()
    needed = [node for node in dict.fromkeys(_needed(graph, backward)) if node.op != "constant"]
    computed = set(in_order(graph.outputs))
    computed |= {node for node in graph.nodes() if node.op == "item" and node.args[0] in computed}
    choices = [_priced(graph, backward, needed, computed, price, only_inputs)
               for price in ((0.0,) if only_inputs else PRICES)]  # fmt: skip
    small = [choice for choice in choices if choice.bytes <= most_bytes] or [min(choices, key=lambda c: c.bytes)]
    quick = [choice for choice in small if choice.work <= most_work] or [min(small, key=lambda c: c.work)]
    return min(quick, key=lambda choice: choice.work / max(most_work, 1) + BYTES * choice.bytes / max(most_bytes, 1))


def _needed(graph: Graph, backward: set[Node]) -> Iterable[Node]:
    """What the backward reads and doesn't itself compute from a cotangent."""
    for node in graph.nodes():
        if node in backward:
            yield from (parent for parent in node.parents if parent not in backward)
    yield from (node for node in graph.gradients if node is not None and node not in backward)


def _priced(
    graph: Graph, backward: set[Node], needed: Sequence[Node], computed: set[Node], price: float, only_inputs: bool
) -> Choice:
    order = in_order(needed)
    kept = set(graph.inputs) | set(graph.outputs)
    flow = networkx.DiGraph()
    flow.add_nodes_from(["source", "sink"])
    for node in order:
        saving = math.inf if node not in computed and not node.is_leaf else _saving(node, kept, graph, only_inputs)
        flow.add_edge((node, "in"), (node, "out"), **_capacity(saving))
        if node.op == "constant":
            continue
        if node.is_leaf or (is_heavy(node) and not only_inputs) or node.is_random:
            flow.add_edge("source", (node, "in"))
        else:
            flow.add_edge("source", (node, "in"), capacity=price * work_of(node) if node in computed else 0.0)
        for parent in node.parents:
            if parent.op != "constant":
                flow.add_edge((parent, "out"), (node, "in"))
    for node in needed:
        flow.add_edge((node, "out"), "sink")
    if not needed:
        saved: tuple[Node, ...] = ()
    else:
        _, (before, _) = networkx.minimum_cut(flow, "source", "sink")
        chosen = {node for node in order if (node, "in") in before and (node, "out") not in before}
        saved = tuple(node for node in dict.fromkeys([*graph.inputs, *graph.outputs, *order]) if node in chosen)
    again = in_order(needed, stop=saved)
    recomputed = tuple(node for node in again if node in computed and not node.is_leaf and not is_view(node))
    storages = {base_of(node): bytes_of(base_of(node)) for node in saved}
    rest = in_order([gradient for gradient in graph.gradients if gradient is not None], stop=saved)
    return Choice(
        saved,
        recomputed,
        sum(storages.values()),
        sum(work_of(node) for node in rest),
        sum(work_of(node) for node in recomputed),
    )


def _saving(node: Node, kept: set[Node], graph: Graph, only_inputs: bool) -> float:
    if node.is_a(torch.ops.aten.detach):
        return bytes_of(node) * (1 - 1e-3)  # rather than what it detaches: it has no graph that could be missed
    if not node.is_tensor or is_view(node) or (only_inputs and node not in graph.inputs and not node.is_random):
        return math.inf
    return bytes_of(node) * (ALIVE if node in kept else 1.0) + 1e-3


def _capacity(amount: float) -> dict[str, float]:
    return {} if math.isinf(amount) else {"capacity": amount}
