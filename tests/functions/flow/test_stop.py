"""Stopping: of one tensor, of a tree, under every transform at every level."""

from __future__ import annotations

import torch

from gradwright.functions.flow.stop import StopGradient, stop_gradient


def test_a_tree_is_stopped_leaf_by_leaf() -> None:
    hidden, cell = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    state = {"state": (hidden * 2, [cell * 3]), "steps": 7}
    stopped = StopGradient()(state)
    assert stopped["steps"] == 7
    assert torch.equal(stopped["state"][0], hidden * 2) and not stopped["state"][0].requires_grad
    assert torch.equal(stopped["state"][1][0], cell * 3) and not stopped["state"][1][0].requires_grad


def test_integers_pass() -> None:
    assert stop_gradient(torch.arange(3)).tolist() == [0, 1, 2]


def test_it_stops_at_every_level_of_torch_func() -> None:
    def product(x: torch.Tensor) -> torch.Tensor:
        return x * x * stop_gradient(x)

    x = torch.tensor(3.0)
    assert float(torch.func.grad(product)(x)) == 18.0
    assert float(torch.func.grad(torch.func.grad(product))(x)) == 6.0
