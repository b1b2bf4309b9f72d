"""Further derivatives of a reversible network, batches of them, torch.func and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.functions.flow.reversible.networks import (
    NETWORKS,
    assert_same,
    gradients,
    halves,
    loss,
    mlp,
    network,
    unrolled,
)
from torch import Tensor, nn
from torch.autograd import forward_ad, gradgradcheck
from torch.func import functional_call

from gradwright.functions.flow.reversible import ReversibleBlock, ReversibleSequence


@pytest.mark.parametrize("make", [network, NETWORKS["affine"], NETWORKS["one block used three times"]],
                         ids=["additive", "affine", "shared"])  # fmt: skip
def test_the_second_derivative_is_autograds(make):
    module, x = make(), halves()
    wanted = [*x, *module.parameters()]

    def penalty(run: Callable[..., Any]) -> list[Tensor]:
        first = torch.autograd.grad(loss(*run(*x)), wanted, create_graph=True)
        return list(torch.autograd.grad(sum(gradient.pow(2).sum() for gradient in first), wanted))

    assert_same(penalty(module), penalty(lambda *x: unrolled(module, *x)), 1e-9)


def test_gradgradcheck():
    module = network(depth=2)
    assert gradgradcheck(lambda *x: module(*x), halves(2))


def test_third_derivative():
    blocks, x = [ReversibleBlock(torch.sin, torch.sin)] * 2, torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def third(run: Callable[..., Any]) -> Tensor:
        result = sum(run(x, x * 0.5))
        for _ in range(3):
            (result,) = torch.autograd.grad(result, x, create_graph=True)
        return result

    sequence = ReversibleSequence(blocks)
    torch.testing.assert_close(third(sequence), third(lambda *x: unrolled(sequence, *x)))


def test_batched_cotangents():
    module, x = network(), halves()
    y = module(*x)
    batch = [torch.randn(7, *half.shape, dtype=torch.float64) for half in y]
    found = torch.autograd.grad(y, x, batch, is_grads_batched=True, retain_graph=True)
    for number in range(7):
        alone = torch.autograd.grad(y, x, [b[number] for b in batch], retain_graph=True)
        assert_same([gradient[number] for gradient in found], list(alone))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_cotangents_with_a_tangent():
    module, x = network(), halves()
    y = module(*x)
    cotangents, tangents = ([torch.randn_like(half) for half in y] for _ in range(2))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(c, t) for c, t in zip(cotangents, tangents, strict=True)]
        found = [forward_ad.unpack_dual(g) for g in torch.autograd.grad(y, x, duals, retain_graph=True)]
    assert_same([g.tangent for g in found], list(torch.autograd.grad(y, x, tangents)))


def test_batched_cotangents_with_dropout_are_right_or_refused():
    y = network(lambda: mlp(nn.Dropout(0.4)))(*(x := halves()))
    with pytest.raises(RuntimeError, match="random"):
        torch.autograd.grad(y, x, [torch.randn(3, *half.shape).double() for half in y], is_grads_batched=True)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_torch_func_and_vmap_and_forward_mode_run_the_blocks_as_plain_torch():
    module, (x1, x2) = network(), halves(grad=False)
    parameters = {name: value.detach() for name, value in module.named_parameters()}

    def of(parameters: Any, x1: Tensor, x2: Tensor) -> Tensor:
        return loss(*functional_call(module, parameters, (x1, x2)))

    plain = gradients(lambda *x: unrolled(module, *x), module, [x1, x2])[2:]
    assert_same(list(torch.func.grad(of)(parameters, x1, x2).values()), plain)
    by_sample = torch.func.vmap(torch.func.grad(of), in_dims=(None, 0, 0))(parameters, x1, x2)
    assert_same([gradient.sum(0) for gradient in by_sample.values()], plain)
    expected = torch.func.jvp(lambda x: unrolled(module, x, x2), (x1,), (x2,))[1]
    with forward_ad.dual_level():
        tangents = [forward_ad.unpack_dual(y).tangent for y in module(forward_ad.make_dual(x1, x2), x2)]
    assert_same(tangents, list(expected))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_torch_compile_leaves_it_out_or_raises():
    module, x = network(), halves()
    expected = gradients(module, module, x)
    compiled = torch.compile(lambda x1, x2: module(x1 * 1, x2), backend="eager")
    assert_same(gradients(compiled, module, x), expected)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="function marked as skipped"):
        torch.compile(lambda x1, x2: module(x1, x2), backend="eager", fullgraph=True)(*x)
    torch._dynamo.reset()
