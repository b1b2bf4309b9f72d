"""Every way to name the point that is differentiated with respect to."""

from __future__ import annotations

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

import gradwright as gw
from gradwright.derivatives.graph.engine import hooks_ever
from gradwright.errors import UsageError


def _net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def _x() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def test_a_tensor_an_edge_and_a_captured_output_name_the_same_point() -> None:
    net = _net()
    with gw.capture(net[1]) as captured:
        h = net[:2](_x())
        y = net[2:](h)
    truth = one_hot_jacobian(y, h)
    for wrt in (h, get_gradient_edge(h), captured, captured[0]):
        torch.testing.assert_close(gw.batch_jacobian(y, wrt), truth)


def test_a_module_that_was_called_twice_has_two_outputs() -> None:
    layer = nn.Linear(3, 3).double()
    with gw.capture(layer) as captured:
        first = layer(_x())
        y = layer(first.tanh())
    assert len(captured) == 2
    with pytest.raises(UsageError, match=r"caught 2 outputs of Linear.*captured\[0\]"):
        gw.batch_jacobian(y * 2, captured)
    torch.testing.assert_close(gw.batch_jacobian(y, captured[0]), one_hot_jacobian(y, first))


def test_a_module_that_was_not_called_is_told() -> None:
    with gw.capture(nn.Tanh()) as captured:
        y = _net()(_x())
    with pytest.raises(UsageError, match="Tanh was not called inside the with block"):
        gw.batch_jacobian(y, captured)


def test_a_module_that_ran_without_a_graph_is_told() -> None:
    net = _net()
    with gw.capture(net) as captured, torch.no_grad():
        net(_x())
    with pytest.raises(UsageError, match="belongs to no graph"):
        gw.batch_jacobian(net(_x()), captured)


def test_a_module_with_several_outputs_has_each() -> None:
    lstm = nn.LSTM(1, 3, batch_first=True).double()
    with gw.capture(lstm) as captured:
        outputs, (_hidden, cell) = lstm(_x().unsqueeze(2))
    y = outputs.sum(1).tanh() + cell[0]
    assert len(captured) == 3
    torch.testing.assert_close(gw.batch_jacobian(y, captured[0]), one_hot_jacobian(y, outputs))
    by_cell = gw.batch_jacobian(y, captured[2], batch_dim=(0, 1))
    torch.testing.assert_close(by_cell[:, :, 0], torch.eye(3, dtype=torch.float64).expand(5, 3, 3))


def test_a_change_in_place_after_the_module_does_not_move_the_point() -> None:
    layer = nn.Linear(3, 3).double()
    with gw.capture(layer) as captured:
        h = layer(_x())
        h.mul_(3)
        y = h * 1
    torch.testing.assert_close(gw.batch_jacobian(y, captured), 3 * torch.eye(3, dtype=torch.float64).expand(5, 3, 3))


def test_a_capture_leaves_no_hook_and_counts_as_none() -> None:
    layer = nn.Linear(3, 3)
    before = hooks_ever()
    with gw.capture(layer):
        layer(torch.ones(2, 3))
    assert not layer._forward_hooks
    assert hooks_ever() == before


def test_a_capture_ends_with_its_block_also_by_an_error() -> None:
    layer = nn.Linear(3, 3)
    with pytest.raises(RuntimeError), gw.capture(layer):
        layer(torch.ones(2, 7))
    assert not layer._forward_hooks


def test_a_parameter_is_shared_by_all_samples() -> None:
    net = _net()
    y = net(_x())
    weight = net[2].weight
    made = gw.batch_jacobian(y, weight)
    assert made.shape == (5, 2, 4, 4)
    for sample in range(5):
        for output in range(2):
            (truth,) = torch.autograd.grad(y[sample, output], weight, retain_graph=True)
            torch.testing.assert_close(made[sample, output], truth)


def test_a_parameter_of_the_samples_is_said_by_the_batch_axes() -> None:
    codes = nn.Parameter(_x())
    y = _net()(codes)
    torch.testing.assert_close(gw.batch_jacobian(y, codes, batch_dim=(0, 0)), one_hot_jacobian(y, codes))


def test_the_output_itself_is_a_point() -> None:
    y = _net()(_x())
    torch.testing.assert_close(gw.batch_jacobian(y, y), torch.eye(2, dtype=torch.float64).expand(5, 2, 2))
    z = _x().requires_grad_()
    torch.testing.assert_close(gw.batch_jacobian(z, z), torch.eye(3, dtype=torch.float64).expand(5, 3, 3))
