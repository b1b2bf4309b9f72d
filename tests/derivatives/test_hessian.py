"""Hessians of every sample: each its own, symmetric, differentiable; and their diagonals without them."""

from __future__ import annotations

import pytest
import torch
from tests.derivatives.functions import Once
from tests.derivatives.second_truth import NETS, made, one_hot_hessian, same_gradients
from torch import Tensor, nn

from gradwright.derivatives.hessian import batch_hessian, hessian_diagonal
from gradwright.errors import CoupledBatch, DerivativeError, NoSecondDerivative, UsageError

NAMES = sorted(NETS)


def diagonal(blocks: Tensor) -> Tensor:
    return blocks.diagonal(dim1=1, dim2=2)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_the_one_hot_hessians(name: str) -> None:
    net, z = made(name)
    y = net(z)[:, 1]
    truth = one_hot_hessian(y, z)
    ours = batch_hessian(y, z)
    torch.testing.assert_close(ours, truth)
    torch.testing.assert_close(ours, ours.mT)
    torch.testing.assert_close(hessian_diagonal(y, z), diagonal(truth))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"relu", "layer norm"}))
def test_their_gradients_are_those_of_nested_autograd(name: str) -> None:
    net, z = made(name)
    y = net(z)[:, 1]
    truth = one_hot_hessian(y, z, create_graph=True)
    same_gradients(batch_hessian(y, z, create_graph=True), truth, net)
    same_gradients(hessian_diagonal(y, z, create_graph=True), diagonal(truth), net)


@pytest.mark.parametrize("chunk", [1, 4, 50])
def test_any_chunk_makes_the_same(chunk: int) -> None:
    net, z = made("mlp")
    y = net(z)[:, 0]
    truth = one_hot_hessian(y, z)
    torch.testing.assert_close(batch_hessian(y, z, chunk_size=chunk), truth)
    torch.testing.assert_close(hessian_diagonal(y, z, chunk_size=chunk), diagonal(truth))


def test_the_axes_of_a_sample_come_twice() -> None:
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    y = (z.sum((0, 2)) ** 3) / 6
    blocks = batch_hessian(y, z, batch_dim=(0, 1))
    assert blocks.shape == (3, 2, 4, 2, 4)
    torch.testing.assert_close(blocks, z.sum((0, 2)).reshape(3, 1, 1, 1, 1).expand(3, 2, 4, 2, 4))
    torch.testing.assert_close(hessian_diagonal(y, z, batch_dim=(0, 1))[:, 0, 0], z.sum((0, 2)))


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_a_single_sample(count: int) -> None:
    net, z = made("mlp", count)
    y = net(z)[:, 0]
    assert batch_hessian(y, z).shape == (count, 6, 6)
    assert hessian_diagonal(y, z).shape == (count, 6)


def test_a_function_is_as_good_as_a_graph() -> None:
    x = torch.randn(3, 2, dtype=torch.float64)
    torch.testing.assert_close(hessian_diagonal(lambda x: x.sin().sum(1), x), -x.sin())
    torch.testing.assert_close(batch_hessian(lambda x: x.sin().sum(1), x), torch.diag_embed(-x.sin()))


def test_a_linear_function_has_none() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    y = z @ torch.ones(2)
    for batch in ("auto", "coupled"):
        assert not batch_hessian(y, z, batch=batch).any()
        assert not hessian_diagonal(y, z, batch=batch).any()


def test_a_parameter_that_all_samples_share_has_one_hessian_per_sample() -> None:
    net, z = made("mlp")
    y, bias = net(z)[:, 0], net[0].bias
    blocks = batch_hessian(y, bias)
    for b in range(3):
        whole = torch.autograd.functional.hessian(
            lambda shift, b=b: net[1:](z[b] @ net[0].weight.T + shift)[0], bias.detach()
        )
        torch.testing.assert_close(blocks[b], whole)


def leak_of_one_sample_s_square(z: Tensor) -> Tensor:
    return (z - z.detach()).roll(1, 0).square().sum(1)


def leak_into_the_gradient(z: Tensor) -> Tensor:
    return (z.square() * z.mean()).sum(1)


def zero_gate(z: Tensor) -> Tensor:
    return z.exp().sum(1) + torch.zeros((), dtype=z.dtype, requires_grad=True) * z.square().mean()


@pytest.mark.parametrize("coupled", [leak_of_one_sample_s_square, leak_into_the_gradient])
def test_samples_that_meet_are_found_and_can_be_taken_apart(coupled: object) -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = coupled(z)  # type: ignore[operator]
    truth = one_hot_hessian(y, z)
    for ours in (batch_hessian, hessian_diagonal):
        with pytest.raises(CoupledBatch):
            ours(y, z)
    assert not torch.allclose(batch_hessian(y, z, batch="assume_independent"), truth), "the case is no trap"
    torch.testing.assert_close(batch_hessian(y, z, batch="coupled"), truth)
    torch.testing.assert_close(hessian_diagonal(y, z, batch="coupled"), diagonal(truth))


def test_a_gate_that_is_zero_now_is_found_where_its_derivative_counts() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = zero_gate(z)
    torch.testing.assert_close(batch_hessian(y, z), one_hot_hessian(y, z))
    with pytest.raises(CoupledBatch):
        batch_hessian(y, z, create_graph=True)


def test_coupled_hessians_can_be_differentiated() -> None:
    net, z = made("mlp")
    y = (net(z) * net(z).mean(0)).tanh().sum(1)
    same_gradients(batch_hessian(y, z, batch="coupled", create_graph=True), one_hot_hessian(y, z, True), net)


def test_hooks_are_obeyed_as_nested_autograd_obeys_them() -> None:
    net, z = made("mlp")
    hidden = net[0](z)
    hidden.register_hook(lambda cotangent: 2 * cotangent)
    y = net[1:](hidden)[:, 0]
    torch.testing.assert_close(batch_hessian(y, z), one_hot_hessian(y, z))


def test_a_hook_that_lets_samples_meet_is_found() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    hidden = z.exp()
    hidden.register_hook(lambda cotangent: cotangent + cotangent.mean(0))
    with pytest.raises(CoupledBatch):
        batch_hessian(hidden.square().sum(1), z)


def test_a_node_without_a_second_derivative_is_named_before_anything_is_computed() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    for ours in (batch_hessian, hessian_diagonal):
        with pytest.raises(NoSecondDerivative, match="OnceBackward"):
            ours(Once.apply(z).sum(1), z)


def test_several_values_per_sample_and_complex_ones_are_refused() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(UsageError, match="one value per sample"):
        batch_hessian(z.sin(), z)
    with pytest.raises(UsageError, match=r"squeeze\(1\)"):
        hessian_diagonal(z.sum(1, keepdim=True), z)
    with pytest.raises(UsageError, match="real"):
        batch_hessian(torch.view_as_complex(z).exp(), z)


def test_a_freed_graph_is_told_and_a_live_one_stays_alive() -> None:
    net, z = made("mlp")
    y = net(z)[:, 0]
    batch_hessian(y, z)
    hessian_diagonal(y, z)
    assert all(parameter.grad is None for parameter in net.parameters())
    y.sum().backward()
    with pytest.raises(DerivativeError, match="freed"):
        batch_hessian(y, z)


def test_a_planted_fault_is_rejected_by_the_truth() -> None:
    net, z = made("mlp")
    y = net(z)[:, 0]
    gauss_newton = torch.autograd.grad(y.sum(), z, create_graph=True)[0].detach()
    assert not torch.allclose(gauss_newton.unsqueeze(2) * gauss_newton.unsqueeze(1), one_hot_hessian(y, z))


def test_the_random_state_stays_as_it_is() -> None:
    z = torch.randn(4, 3, requires_grad=True)
    before = torch.get_rng_state()
    batch_hessian(nn.functional.dropout(z).exp().sum(1), z)
    during = torch.get_rng_state()
    torch.set_rng_state(before)
    nn.functional.dropout(z)
    assert torch.equal(during, torch.get_rng_state())


def test_a_memory_limit_is_judged_before_anything_and_kept_where_there_is_nothing() -> None:
    z = torch.randn(16, 32, requires_grad=True)
    for y in (z.exp().sum(1), z.sum(1)):  # of a constant gradient the Hessians are zeros
        for batch in ("auto", "coupled"):
            with pytest.raises(UsageError, match="max_bytes=0"):
                batch_hessian(y, z, batch=batch, max_bytes=0)
        with pytest.raises(DerivativeError, match=r"max_bytes=1,000 is too little: at least [\d,]+ bytes"):
            batch_hessian(y, z, max_bytes=1000)
        assert batch_hessian(y, z, max_bytes=1 << 20).shape == (16, 32, 32)


def test_a_memory_limit_is_refused_where_each_sample_has_backwards_of_its_own() -> None:
    z = torch.randn(4, 3, requires_grad=True)
    shared = nn.Parameter(torch.ones(3))
    for y, wrt, batch in ((z.exp().sum(1), z, "coupled"), ((z.detach() * shared).exp().sum(1), shared, "auto")):
        with pytest.raises(UsageError, match="max_bytes is for Hessians by rows that all samples share"):
            batch_hessian(y, wrt, batch=batch, max_bytes=1 << 20)
