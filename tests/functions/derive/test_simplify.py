"""Every rule keeps the value: the joint graphs of small forwards, computed before and after it is applied."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import sympy  # type: ignore[import-untyped]
import torch
import torch.nn.functional as F

from gradwright.functions.derive.fused import fuse
from gradwright.functions.derive.graph import Graph, Node, in_order, map_nodes
from gradwright.functions.derive.simplify import Rule, all_rules, simplify
from gradwright.functions.derive.simplify.rewriting import is_alike, rewrite
from gradwright.functions.derive.sizes import number_of
from gradwright.functions.derive.trace import trace

aten = torch.ops.aten


def arithmetic(x, y):
    return (x * 1 + 0) ** 2 * 3.0 * 2.0 - torch.neg(-y) * -1 + (x - -0.5) + (x + -0.25)


def signs(x, y):
    return (-x * y).sum(0) + (-y / (x * x + 1)) + x * (1 / (y * y + 1))


def means(x, y):
    return (x * y).mean() + x.mean(0).sum() + y.mean(1, keepdim=True).sum() + (x.sum(1, keepdim=True) * 2).sum()


def views(x, y):
    z = x.reshape(4, 3).reshape(2, 6).unsqueeze(0).squeeze(0).t().t()
    return z.permute(1, 0).transpose(0, 1).sum() * y[:].expand(3, 4).expand(3, 4) + torch.ones_like(x).clone().double()


def branches(x, y):
    return torch.where(x > 0, x * y, torch.zeros_like(x)) + torch.zeros_like(x) + x.exp().sum((), keepdim=False)


def slices(x, y):
    z = x.clone()
    return z[:, 1:] * y[:, :-1] + F.pad(y, (0, -1)) + z.select(0, 1)[:3] + z[:][:, :3]


def no_axes(x, y):
    return x.sum([0], keepdim=True).sum(0, keepdim=True).reshape(4) + y.reshape(3, 1, 4).sum(1)


def by_hand(x, y):
    """What autograd writes for in-place forwards."""
    part = torch.ops.aten.slice_scatter(x, y, 0, 0, 2**63 - 1)
    back = torch.ops.aten.slice_backward(y, x.shape, 0, 0, 2**63 - 1, 1)
    zeros = torch.ops.aten.select_backward(torch.zeros_like(x[0]), x.shape, 0, 1)
    column = x.sum().expand(3, 4).unsqueeze(1).sum(1) + x.sum().expand(3, 4).sum(0)
    return part * back + zeros.reshape(12).reshape(3, 4) + column + (x.sum().expand(3, 4) * y.sum().expand(3, 4)).sin()


def products(x, y):
    stacked = torch.stack([x, y]) * 2
    four = stacked.reshape(2, 1, 3, 4).expand(2, 2, 3, 4) * 1.5
    return stacked @ y.t() + (four @ four.mT).sum(1) + torch.ops.aten._to_copy(x @ y.t(), dtype=torch.float64)


def places(x, y):
    """Parts that meet, the same part twice, all rows one by one, what is cut away, and sums at indices."""
    rows = torch.stack([x[0] * y[2], y[1] * x[1], -x[2] * y[0]])
    halves = torch.cat([y[:, :2] * x[:, 2:], torch.cat([x[:, :2], y[:, 2:] * y[:, 2:]], 1)], 1)
    steps = F.pad(x[:, 1:] - x[:, :-1], (1, 0)) * y + F.pad(x, (0, 1, -1, 0))[:, 1:].sum()
    chosen = x.gather(1, y.argmax(1, keepdim=True)) * y + x.sin()
    return rows.sum() + halves.sum() + steps + chosen + (-y[1:]).sum() * x


def out_of_range(x, y):
    """The same part twice, and parts that would meet, where torch clamps their ends."""
    twice = x[-7:2].sin().sum() * x[-7:2].exp().sum() + (x[:, 1:9].sin() * x[:, 1:9]).sum()
    empty = (x[1:3].sin().sum() + x[3:1].exp().sum()) + (y[-9:-5].exp().sum() + y[-5:1].sin().sum())
    return (x[:9] * y[-9:]).sin() + y[:, 2:].exp().sum() + y[:, -9:2].sin().sum() + twice + empty


def gates(x, y):
    """Both gates of one number, and directions."""
    lengths = torch.linalg.vector_norm(x, dim=-1)
    unit = y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    return (x.sigmoid() * y + (-x).sigmoid() * y * y + unit) * lengths.unsqueeze(-1)


FORWARDS = [gates, out_of_range, places, products, arithmetic, signs, means, views, branches, slices, no_axes, by_hand]


def drawn() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 4, generator=generator, dtype=torch.float64) for _ in range(2)]


@functools.cache
def first_trace(forward: Any) -> Graph:
    return trace(forward, ["x", "y"], drawn(), [True, True], forward.__name__).graph


def traced(forward: Any) -> Graph:
    """A graph of its own, of the one trace."""
    graph = first_trace(forward)
    return replace(graph, outputs=list(graph.outputs), gradients=list(graph.gradients))


class Numbers:
    """What each node of a graph comes to, on real numbers, operation by operation."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[Node, Any] = dict(zip(graph.inputs, drawn(), strict=True))
        generator = torch.Generator().manual_seed(1)
        for node in graph.cotangents:
            if node is not None:
                shape = [number_of(size, graph.shape_env) for size in node.shape]
                self.known[node] = torch.randn(shape, generator=generator, dtype=torch.float64)

    def of(self, wanted: Node) -> Any:
        for node in in_order([wanted], stop=self.known):
            args, kwargs = map_nodes(node.args, self._plain), map_nodes(node.kwargs, self._plain)
            if node.op == "item":
                self.known[node] = args[0][args[1]]
            else:
                op = aten.reshape.default if node.is_a(aten.view, aten._unsafe_view) else node.op
                self.known[node] = op(*args, **kwargs)
        return self.known[wanted]

    def _plain(self, leaf: Any) -> Any:
        if isinstance(leaf, Node):
            return self.known[leaf]
        return number_of(leaf, self.graph.shape_env) if isinstance(leaf, sympy.Basic) else leaf


def same(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and torch.allclose(one, other))


def verdicts(forward: Any, rules: Sequence[Rule]) -> dict[str, bool]:
    """Of every rule that did something: was what it answered always what it had been asked about?"""
    graph = traced(forward)
    numbers = Numbers(graph)
    found: dict[str, bool] = {}

    def watched(rule: Rule) -> Rule:
        def apply(node: Node, graph: Graph) -> Node | None:
            answer = rule.apply(node, graph)
            if answer is not None and answer is not node and is_alike(answer, node):
                found[rule.name] = found.get(rule.name, True) and same(numbers.of(node), numbers.of(answer))
            return answer

        return Rule(rule.name, rule.reason, apply)

    rewrite(graph, [watched(rule) for rule in rules])
    return found


@functools.cache
def of_all_rules() -> dict[str, bool]:
    found: dict[str, bool] = {}
    for forward in FORWARDS:
        for name, kept in verdicts(forward, all_rules()).items():
            found[name] = found.get(name, True) and kept
    return found


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.name)
def test_a_rule_keeps_the_value_wherever_it_applies(rule: Rule) -> None:
    assert of_all_rules()[rule.name]


@pytest.mark.parametrize(
    "wrong",
    [
        Rule("x - y is x + y", "", lambda n, g: _added(n, g)),
        Rule("-x is x", "", lambda n, g: n.args[0] if n.is_a(aten.neg) else None),
        Rule("x * 2 is x * 3", "", lambda n, g: _tripled(n, g)),
    ],
    ids=lambda rule: rule.name,
)
def test_a_wrong_rule_would_be_seen(wrong: Rule) -> None:
    assert not all({**verdicts(arithmetic, [wrong]), **verdicts(signs, [wrong])}.values())


def _added(node: Node, graph: Graph) -> Node | None:
    return graph.make(aten.add.Tensor, *node.args) if node.is_a(aten.sub.Tensor) else None


def _tripled(node: Node, graph: Graph) -> Node | None:
    if node.is_a(aten.mul.Tensor) and node.args[1] == 2.0:
        return graph.make(aten.mul.Tensor, node.args[0], 3.0)
    return None


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda forward: forward.__name__)
def test_all_rules_together_keep_the_results_and_make_the_graph_no_larger(forward: Any) -> None:
    graph = traced(forward)
    before, numbers = graph.results, Numbers(graph)
    count = len(graph.nodes())
    simplify(graph)
    fuse(graph)
    assert all(same(numbers.of(one), numbers.of(other)) for one, other in zip(before, graph.results, strict=True))
    assert len(graph.nodes()) <= count


def test_a_rule_that_changes_a_shape_is_not_applied() -> None:
    graph = traced(arithmetic)
    shrinking = Rule("shrinking", "", lambda n, g: g.make(aten.sum.default, n) if n.is_a(aten.mul) else None)
    assert rewrite(graph, [shrinking]) == []
