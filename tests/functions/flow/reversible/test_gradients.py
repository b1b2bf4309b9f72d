"""A reversible network has plain autograd's gradient."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.functions.flow.reversible.networks import (
    NETWORKS,
    WIDTH,
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
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from gradwright.functions.flow.reversible import ReversibleBlock, ReversibleSequence, reversible
from gradwright.functions.flow.reversible.engine import ReversibleFunction
from gradwright.functions.flow.reversible.passage import Plan


@pytest.mark.parametrize("make", NETWORKS.values(), ids=list(NETWORKS))
def test_gradients_and_buffers_are_those_of_plain_autograd(make):
    assert_like_autograd(make())


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)], ids=["x1", "x2", "none"])
def test_inputs_that_need_no_gradient_get_none(wanted):
    assert_like_autograd(
        network(), [x.requires_grad_(want) for x, want in zip(halves(grad=False), wanted, strict=True)]
    )


@pytest.mark.parametrize("used", [0, 1])
def test_one_output_used_leaves_what_is_not_on_its_way_without_a_gradient(used):
    module = network()
    x = halves()
    module(*x)[used].pow(2).sum().backward()
    found = [value.grad for value in (*x, *module.parameters())]
    twin, z = copy.deepcopy(module), [value.detach().requires_grad_() for value in x]
    twin.zero_grad()
    unrolled(twin, *z)[used].pow(2).sum().backward()
    assert_same(found, [value.grad for value in (*z, *twin.parameters())])
    assert (used == 0) == any(gradient is None for gradient in found)


def test_complex_halves():
    blocks = [ReversibleBlock(torch.sin, torch.cos)] * 2
    x = [torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(2)]
    assert gradcheck(lambda *x: reversible(*x, blocks), x)


def test_halves_of_different_shapes():
    blocks = ReversibleSequence([ReversibleBlock(nn.Linear(2, WIDTH), nn.Linear(WIDTH, 2))] * 2).double()
    x = [halves()[0], torch.randn(5, 2, dtype=torch.float64, requires_grad=True)]
    assert gradcheck(lambda *x: blocks(*x), x)


def test_empty_halves_and_no_blocks():
    assert_like_autograd(network(), halves(0))
    x = halves()
    assert ReversibleSequence([])(*x)[1] is x[1]


def test_parameters_by_autograd_grad_and_by_functional_call():
    module, x = network(), halves(grad=False)
    parameters = dict(module.named_parameters())
    found = torch.autograd.grad(loss(*module(*x)), list(parameters.values()))
    assert_same(list(found), gradients(lambda *x: unrolled(module, *x), module, x)[2:])
    others = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
    module.zero_grad()
    loss(*functional_call(module, others, tuple(x))).backward()
    assert_same([value.grad for value in others.values()], list(found))
    assert all(value.grad is None for value in parameters.values())


def test_the_function_is_one_of_the_parameters_that_it_is_handed():
    module, x = network(lambda: mlp(nn.BatchNorm1d(WIDTH), nn.Dropout(0.4))), halves()
    twin = copy.deepcopy(module)
    plan = Plan.of([step for each in module.blocks for step in each.steps()], "full", None, *x)
    others = [torch.randn_like(parameter).requires_grad_() for parameter in plan.learnt]
    torch.manual_seed(3)
    loss(*ReversibleFunction.apply(plan, *x, *others)).backward()
    with torch.no_grad():
        for parameter, other in zip(twin.parameters(), others, strict=True):
            parameter.copy_(other)
    expected = gradients(lambda *x: unrolled(twin, *x), twin, x)
    assert_same([tensor.grad for tensor in (*x, *others)], expected)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_same_graph_backwards_twice():
    module, x = network(lambda: mlp(nn.Dropout(0.4), nn.BatchNorm1d(WIDTH))), halves()
    result = loss(*module(*x))
    first = torch.autograd.grad(result, [*x, *module.parameters()], retain_graph=True)
    again = torch.autograd.grad(result, [*x, *module.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))


def test_one_tensor_as_both_halves():
    blocks, x = network().blocks, halves(2)[:1]
    assert gradcheck(lambda x: reversible(x, x, blocks), x)


@pytest.mark.parametrize("more", [(), (nn.Dropout(0.4),)], ids=["plain", "dropout"])
def test_a_checkpoint_around_it_changes_nothing(more):
    module, x = network(lambda: mlp(*more)), halves()
    found = gradients(lambda *x: checkpoint(module, *x, use_reentrant=False), module, x)
    assert_same(found, gradients(module, module, x))
