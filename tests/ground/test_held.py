"""Other tensors in the places of a module's own, for one call."""

import pytest
import torch
from torch import nn

import gradwright as gw
from gradwright.ground.held import call_with


class Twice(nn.Module):
    """One layer in two places."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.again = nn.Sequential(nn.Tanh(), self.layer)

    def forward(self, x):
        return self.again(self.layer(x))


def test_a_call_uses_what_it_is_lent_in_every_place_of_a_shared_layer():
    module, x = Twice(), torch.randn(3, 2)
    lent = torch.eye(2)
    found = call_with(module, {"layer.weight": lent, "layer.bias": torch.zeros(2)}, (x,), {})
    assert torch.equal(found, x.tanh())


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_module_holds_afterwards_what_it_held_before(fails):
    module = Twice()
    own = dict(module.named_parameters(remove_duplicate=False))
    x = torch.randn(3, 5 if fails else 2)
    try:
        call_with(module, {name: torch.zeros_like(value) for name, value in module.named_parameters()}, (x,), {})
    except RuntimeError:
        assert fails
    assert all(value is own[name] for name, value in module.named_parameters(remove_duplicate=False))
    assert len(own) == 4


@pytest.mark.parametrize("look", [gw.check, gw.diagnose], ids=["check", "diagnose"])
def test_looking_at_a_module_with_a_shared_layer_leaves_it_alone(look):
    module = Twice()
    own = dict(module.named_parameters())
    look(module, torch.randn(3, 2))
    assert {name: id(value) for name, value in module.named_parameters()} == {k: id(v) for k, v in own.items()}
    assert all(isinstance(value, nn.Parameter) for value in module.parameters())


def test_a_recurrent_network_uses_what_it_is_lent():
    module, x = nn.GRU(2, 3), torch.randn(4, 1, 2)
    found, _ = call_with(module, {name: torch.zeros_like(p) for name, p in module.named_parameters()}, (x,), {})
    assert not found.any() and module(x)[0].any()


def test_an_unknown_name_is_refused():
    with pytest.raises(KeyError, match="wieght"):
        call_with(nn.Linear(2, 2), {"wieght": torch.ones(2, 2)}, (torch.ones(2),), {})
