from __future__ import annotations

from unittest import mock

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from tests.penalties.loops import points, same_training
from torch import Tensor, nn

from gradwright.errors import CoupledBatch
from gradwright.penalties import contractive, contractive_penalty


class Gated(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        return a.sin() * (1 + a.sigmoid())


class Spread(nn.Module):
    """One unit becomes four by broadcasting."""

    def forward(self, a: Tensor) -> Tensor:
        return a * torch.arange(1.0, 5.0, dtype=a.dtype)


class Broadcast(nn.Module):
    """Every unit is multiplied with the first one: not entry by entry."""

    def forward(self, a: Tensor) -> Tensor:
        return a.tanh() * a[:, :1].sigmoid()


ENCODERS = {
    "sigmoid": nn.Sequential(nn.Linear(3, 5), nn.Sigmoid()),
    "tanh without bias": nn.Sequential(nn.Linear(3, 5, bias=False), nn.Tanh()),
    "linear": nn.Linear(3, 5),
    "two functions": nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Sigmoid()),
    "softplus": nn.Sequential(nn.Linear(3, 5), nn.Softplus()),
    "gated by itself": nn.Sequential(nn.Linear(3, 5), Gated()),
}


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    layer = ENCODERS[request.param].double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def loop(encoder: nn.Module, x: Tensor) -> Tensor:
    return one_hot_jacobian(encoder(x), x, create_graph=True).square().sum((1, 2))


def test_one_layer_needs_no_jacobian(encoder: nn.Module) -> None:
    x = points()
    with mock.patch.object(contractive, "batch_jacobian", side_effect=AssertionError("a Jacobian was made")):
        found = contractive_penalty(encoder(x), wrt=x, reduction="none")
    assert same_training(found, loop(encoder, x), list(encoder.parameters()))


@pytest.mark.parametrize(
    "other",
    [
        nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid()),
        nn.Sequential(nn.Linear(3, 5), nn.Softmax(1)),
        nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5)),
        nn.Sequential(nn.Tanh(), nn.Linear(3, 5)),
        nn.Sequential(nn.Linear(3, 5), Broadcast()),
        nn.Sequential(nn.Linear(3, 1), nn.Tanh(), Spread()),
    ],
    ids=["two layers", "softmax", "layer norm", "bent before", "one unit for all", "spread by broadcasting"],
)
def test_other_encoders_go_by_their_jacobian(other: nn.Module) -> None:
    torch.manual_seed(0)
    encoder, x = other.double(), points()
    found = contractive_penalty(encoder(x), wrt=x, reduction="none")
    assert same_training(found, loop(encoder, x), list(encoder.parameters()))


def test_a_residual_is_no_single_layer() -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 3).double(), points()
    for h in (x + layer(x).tanh(), x * layer(x)):
        expected = one_hot_jacobian(h, x).square().sum((1, 2))
        torch.testing.assert_close(contractive_penalty(h, wrt=x, reduction="none"), expected)


def test_a_hook_on_the_way_is_heeded() -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 4).double(), points()
    pre = layer(x)
    pre.register_hook(lambda cotangent: 2 * cotangent)
    h = pre.sigmoid()
    expected = one_hot_jacobian(h, x).square().sum((1, 2))
    torch.testing.assert_close(contractive_penalty(h, wrt=x, reduction="none"), expected)


def test_samples_that_meet_behind_one_layer_are_found() -> None:
    x = points()
    h = (nn.Linear(3, 4).double()(x) + x.mean()).tanh()
    with pytest.raises(CoupledBatch):
        contractive_penalty(h, wrt=x)


def test_a_product_of_the_samples_with_themselves_is_no_layer() -> None:
    x = points(3)
    with pytest.raises(CoupledBatch):
        contractive_penalty((x @ x).tanh(), wrt=x)
