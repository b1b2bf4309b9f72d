"""How rules are applied: node by node, parents first, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradwright.functions.derive.graph import Graph, Node, map_nodes

ROUNDS = 20


@dataclass(frozen=True)
class Rule:
    """``apply(node, graph)`` answers with a node of the same value, or None. ``reason``: why it is one, and better."""

    name: str
    reason: str
    apply: Callable[[Node, Graph], Node | None]


def rewrite(graph: Graph, rules: Sequence[Rule], rounds: int = ROUNDS) -> list[Rule]:
    """Rewrite the graph in place; returns the rules that changed something."""
    used: dict[str, Rule] = {}
    for _ in range(rounds):
        if not _round(graph, rules, used):
            break
    return list(used.values())


def _round(graph: Graph, rules: Sequence[Rule], used: dict[str, Rule]) -> bool:
    changed = False
    new: dict[Node, Node] = {}
    kept = set(graph.outputs)  # an output stays a tensor of its own: a copy that is returned is not its original
    for node in graph.nodes():
        current = _with_new_parents(node, new, graph)
        rule = None
        while node not in kept or not _is_copy(current):
            rule, answer = _first(current, rules, graph)
            if rule is None or answer is None:
                break
            if not answer.is_leaf:
                answer.name, answer.hint = answer.name or current.name, answer.hint or current.hint
            current, changed = answer, True
            used[rule.name] = rule
        new[node] = current
    graph.outputs = [new[node] for node in graph.outputs]
    graph.gradients = [None if node is None else new[node] for node in graph.gradients]
    return changed


def _is_copy(node: Node) -> bool:
    return not isinstance(node.op, str) and node.op.overloadpacket.__name__ in ("clone", "_to_copy", "alias", "detach")


def _first(node: Node, rules: Sequence[Rule], graph: Graph) -> tuple[Rule | None, Node | None]:
    if isinstance(node.op, str):
        return None, None
    for rule in rules:
        answer = rule.apply(node, graph)
        if answer is not None and answer is not node and is_alike(answer, node):
            return rule, answer
    return None, None


def is_alike(one: Node, other: Node) -> bool:
    """Same shape, dtype and device: what every rule has to keep."""
    if not (one.is_tensor and other.is_tensor):
        return one.is_tensor == other.is_tensor
    return one.shape == other.shape and one.dtype == other.dtype and one.value.device == other.value.device


def _with_new_parents(node: Node, new: dict[Node, Node], graph: Graph) -> Node:
    if node.is_leaf or all(new[parent] is parent for parent in node.parents):
        return node

    def replaced(leaf: object) -> object:
        return new[leaf] if isinstance(leaf, Node) else leaf

    # every rule keeps shape, dtype and device, so the fake result is still the one it was
    made = graph.intern(node.op, map_nodes(node.args, replaced), map_nodes(node.kwargs, replaced), name=node.name,
                        value=node.value)  # fmt: skip
    made.hint = made.hint or node.hint
    return made
