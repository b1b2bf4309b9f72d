"""The graph behind a tensor, walked."""

import torch

from gradwright.ground.graphs import graph_of


def told(nodes):
    return [type(node).__name__ for node in nodes]


def test_every_node_comes_once_however_many_ways_lead_to_it():
    x = torch.ones(3, requires_grad=True)
    y = x.sin()
    nodes = list(graph_of([y * y, y + y]))
    assert len(nodes) == len(set(nodes)) == 4


def test_what_is_near_comes_first():
    x = torch.ones(3, requires_grad=True)
    assert told(graph_of([x.exp().sin() + x])) == ["AddBackward0", "SinBackward0", "AccumulateGrad", "ExpBackward0"]


def test_it_ends_after_as_many_nodes_as_are_asked_for():
    x = torch.ones(3, requires_grad=True)
    assert told(graph_of([x.exp().sin()], most=2)) == ["SinBackward0", "ExpBackward0"]
    assert told(graph_of([x.exp().sin()], most=0)) == []


def test_what_is_set_apart_hides_what_only_it_leads_to():
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    inner = x.exp()
    (leaf,) = (node for node in graph_of([inner * w], apart=[inner.grad_fn]) if hasattr(node, "variable"))
    assert leaf.variable is w


def test_a_tensor_without_a_graph_has_no_nodes():
    assert list(graph_of([torch.ones(3)])) == []
