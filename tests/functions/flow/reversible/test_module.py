"""A reversible network has an inverse, and is a module like any other."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from tests.functions.flow.reversible.networks import (
    NETWORKS,
    WIDTH,
    Counting,
    Pair,
    assert_like_autograd,
    assert_same,
    gradients,
    halves,
    loss,
    mlp,
    network,
    unrolled,
)
from torch import nn
from torch.autograd import gradcheck

from gradwright.functions.flow.reversible import ReversibleBlock, ReversibleSequence

# --- the inverse -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [network, NETWORKS["affine"], NETWORKS["one half only"]], ids=["additive", "affine", "half"]
)
def test_the_inverse_gives_the_inputs_back_and_has_a_gradient(make):
    module, x = make(), halves()
    assert_same(list(module.inverse(*module(*x))), x, 1e-10)
    assert_same(list(module.blocks[0].inverse(*module.blocks[0](*x))), x, 1e-10)
    assert gradcheck(lambda *y: module.inverse(*y), halves(2))


def test_rounding_errors_grow_with_depth_and_are_told():
    torch.manual_seed(0)
    module = network(depth=60).float()
    errors = module.inverse_errors(*(x.detach().float() for x in halves()))
    assert len(errors) == 60
    assert errors[-1] < 1e-6
    assert errors[-1] < errors[0] < 1e-3
    assert max(module.double().inverse_errors(*(x.detach() for x in halves()))) < 1e-9


def test_to_measure_the_errors_changes_nothing():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4)))
    x, before = halves(), copy.deepcopy(module.state_dict())
    state = torch.get_rng_state()
    errors = module.inverse_errors(*x)
    assert 0 < max(errors) < 1e-12
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_the_errors_show_a_fault_where_it_is():
    blocks = [ReversibleBlock(mlp(), mlp()) for _ in range(4)]
    blocks[1].f = Counting()
    errors = ReversibleSequence(blocks).double().inverse_errors(*halves())
    assert [error > 1e-3 for error in errors] == [True, True, False, False]


# --- a module like any other -----------------------------------------------------------------------------------------


def test_copies_pickles_and_state_dicts():
    module, x = network(Pair, coupling="affine"), halves()
    expected = gradients(module, module, x)
    other = network(Pair, coupling="affine")
    other.load_state_dict(module.state_dict())
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert_same(gradients(twin, twin, x), expected)
    assert "coupling=Affine()" in repr(module)
    assert "blocks.0.f.both.weight" in module.state_dict()


def test_a_module_is_copied_and_pickled_after_a_backward_too():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH)))
    loss(*module(*halves())).backward()
    assert_like_autograd(copy.deepcopy(module))
    assert_like_autograd(pickle.loads(pickle.dumps(module)))
    assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())


def test_it_trains_as_the_unrolled_network_does():
    module = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.2)))
    twin, x = copy.deepcopy(module), halves(32, grad=False)
    curves = []
    for net, run in ((module, module), (twin, lambda *x: unrolled(twin, *x))):
        torch.manual_seed(5)
        optimizer, curve = torch.optim.Adam(net.parameters(), 1e-2), []
        for _ in range(10):
            optimizer.zero_grad()
            value = sum((y - x_half.flip(0)).pow(2).mean() for y, x_half in zip(run(*x), x, strict=True))
            value.backward()
            optimizer.step()
            curve.append(float(value.detach()))
        curves.append(curve)
    assert curves[0] == pytest.approx(curves[1], rel=1e-9)
    assert curves[0][-1] < curves[0][0]
