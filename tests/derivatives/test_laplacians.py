"""The Laplacian is the trace of each sample's Hessian, forward or by rows, and can be differentiated."""

from __future__ import annotations

import importlib

import pytest
import torch
from tests.derivatives.second_truth import NETS, WrittenOut, made, one_hot_laplacian, same_gradients
from torch import Tensor, nn

from gradwright.derivatives.graph.captured import capture
from gradwright.derivatives.graph.options import read_options
from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.hessian import batch_hessian
from gradwright.derivatives.laplacians import laplacian
from gradwright.derivatives.methods.pushed import why_not_pushed
from gradwright.errors import CoupledBatch, DerivativeError, NoSecondDerivative, UsageError
from gradwright.ground.memory import memory_of

#: The module; the package has a function of that name.
laplacian_module = importlib.import_module("gradwright.derivatives.laplacians")

NAMES = sorted(NETS)


@pytest.mark.parametrize("mode", ["auto", "reverse"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_trace_of_the_one_hot_hessian(name: str, mode: str) -> None:
    net, z = made(name)
    y = net(z)
    torch.testing.assert_close(laplacian(y, z, mode=mode), one_hot_laplacian(y, z))


@pytest.mark.parametrize("name", NAMES)
def test_sample_by_sample_it_is_the_same(name: str) -> None:
    net, z = made(name)
    y = net(z)
    torch.testing.assert_close(laplacian(y, z, batch="coupled"), one_hot_laplacian(y, z))


@pytest.mark.parametrize("mode", ["auto", "reverse"])
@pytest.mark.parametrize("name", sorted({*NAMES} - {"relu", "layer norm"}))
def test_its_own_gradients_are_those_of_nested_autograd(name: str, mode: str) -> None:
    net, z = made(name)
    y = net(z)
    same_gradients(laplacian(y, z, mode=mode, create_graph=True), one_hot_laplacian(y, z, True), net)


def test_through_a_layer_norm_its_gradients_are_right_where_nested_autograd_s_are_not() -> None:
    net, z = made("layer norm")
    written_out = nn.Sequential(net[0], WrittenOut(net[1]), *net[2:])
    truth = one_hot_laplacian(written_out(z), z, True)
    same_gradients(laplacian(net(z), z, create_graph=True), truth, net)
    with pytest.raises(AssertionError):
        same_gradients(one_hot_laplacian(net(z), z, True), truth, net)


def test_an_mlp_is_pushed_forward_with_no_backward_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    net, z = made("mlp")
    y = net(z)
    expected = one_hot_laplacian(y, z)
    monkeypatch.setattr(laplacian_module, "diagonals", None)
    torch.testing.assert_close(laplacian(y, z, mode="forward"), expected)


def test_the_trace_of_the_batch_hessian_is_the_laplacian() -> None:
    net, z = made("softplus")
    y = net(z)[:, 0]
    torch.testing.assert_close(batch_hessian(y, z).diagonal(dim1=1, dim2=2).sum(1), laplacian(y, z))


@pytest.mark.parametrize("name", ["mlp", "layer norm"])
@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_any_chunk_of_directions_makes_the_same(mode: str, chunk: int, name: str) -> None:
    net, z = made(name)
    y = net(z)
    torch.testing.assert_close(laplacian(y, z, mode=mode, chunk_size=chunk), laplacian(y, z))


def test_a_function_is_called_once_and_its_parameters_get_gradients() -> None:
    net, z = made("mlp")
    calls = []

    def f(x: Tensor) -> Tensor:
        calls.append(x)
        return net(x)

    ours = laplacian(f, z.detach(), create_graph=True)
    assert len(calls) == 1
    same_gradients(ours, one_hot_laplacian(net(z), z, True), net)


def test_it_has_the_shape_of_y_and_the_dtype_of_wrt() -> None:
    z = torch.randn(3, 4, 2, requires_grad=True)
    y = z.sin().movedim(0, 1)[:, :, None]
    made = laplacian(y, z, batch_dim=(1, 0))
    assert made.shape == y.shape == (4, 3, 1, 2)
    torch.testing.assert_close(made, -y)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_batch_may_lie_along_another_axis(mode: str) -> None:
    z = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    y = (z**3).sum(0) * 1.0
    torch.testing.assert_close(laplacian(y, z, batch_dim=(0, 1), mode=mode), (6 * z).sum(0))


@pytest.mark.parametrize("mode", ["auto", "reverse"])
@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_a_single_sample(count: int, mode: str) -> None:
    net, z = made("mlp", count)
    y = net(z)
    assert laplacian(y, z, mode=mode).shape == (count, 2)
    if count:
        torch.testing.assert_close(laplacian(y, z, mode=mode), one_hot_laplacian(y, z))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_linear_network_has_none(mode: str) -> None:
    z = torch.randn(3, 4, requires_grad=True)
    assert laplacian(nn.Linear(4, 2)(z), z, mode=mode).tolist() == [[0.0, 0.0]] * 3


def test_hooks_are_obeyed_as_nested_autograd_obeys_them() -> None:
    net, z = made("mlp")
    hidden = net[0](z)
    hidden.register_hook(lambda cotangent: 2 * cotangent)
    y = net[1:](hidden)
    torch.testing.assert_close(laplacian(y, z), one_hot_laplacian(y, z))
    with pytest.raises(UsageError, match="hook"):
        laplacian(y, z, mode="forward")


def coupled_by_mean(z: Tensor) -> Tensor:
    return (z.exp() * z.mean(0)).sum(1)


def coupled_where_slopes_vanish(z: Tensor) -> Tensor:
    return (z - z.detach()).roll(1, 0).square().sum(1)


COUPLED = {
    "mean": coupled_by_mean,
    "rolled, at the bottom": coupled_where_slopes_vanish,
    "batch norm": lambda z: nn.BatchNorm1d(6, dtype=z.dtype)(z).exp().sum(1),
}


@pytest.mark.parametrize("name", sorted(COUPLED))
def test_samples_that_meet_are_found(name: str) -> None:
    z = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    y = COUPLED[name](z)
    with pytest.raises(CoupledBatch):
        laplacian(y, z)
    wrong = laplacian(y, z, batch="assume_independent")
    truth = one_hot_laplacian(y, z)
    assert not torch.allclose(wrong, truth), "the case is no trap"
    torch.testing.assert_close(laplacian(y, z, batch="coupled"), truth)


def test_a_coupled_batch_gets_gradients_too() -> None:
    net, z = made("mlp")
    y = (net(z) * net(z).mean(0)).tanh()
    same_gradients(laplacian(y, z, batch="coupled", create_graph=True), one_hot_laplacian(y, z, True), net)


def test_it_works_at_a_captured_layer() -> None:
    net, z = made("mlp")
    with capture(net[1]) as hidden:
        y = net(z)
    again = net[0](z).tanh()
    torch.testing.assert_close(laplacian(y, hidden), one_hot_laplacian(net[2:](again), again))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_at_a_parameter_it_is_the_trace_of_each_value_s_hessian(mode: str) -> None:
    net, z = made("mlp")
    bias, y = net[0].bias, net(z)
    made_ = laplacian(y, bias, mode=mode)
    for b, k in ((0, 1), (2, 0)):
        whole = torch.autograd.functional.hessian(
            lambda shift, b=b, k=k: net[1:](z[b : b + 1] @ net[0].weight.T + shift)[0, k], bias.detach()
        )
        torch.testing.assert_close(made_[b, k], whole.trace())


def test_a_freed_graph_and_no_second_derivative_are_told() -> None:
    net, z = made("mlp")
    y = net(z)
    y.sum().backward()
    with pytest.raises(DerivativeError, match="retain_graph"):
        laplacian(y, z)
    q = torch.randn(2, 1, 4, 8, requires_grad=True)
    attended = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    if type(attended.grad_fn).__name__.startswith("ScaledDotProductFlash"):
        with pytest.raises(NoSecondDerivative):
            laplacian(attended, q, mode="reverse")


@pytest.mark.parametrize(
    ("create_graph", "share", "fits"),
    [
        (False, 0.1, False),
        (False, 0.2, True),
        (False, 0.6, True),
        (False, 1.0, True),
        (True, 0.6, False),
        (True, 1.0, True),
    ],
)
def test_max_bytes_holds_within_a_tenth_or_is_told_to_be_too_little(
    create_graph: bool, share: float, fits: bool
) -> None:
    net = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    z = torch.randn(128, 20, requires_grad=True)
    y = net(z)
    ways = {"mode": "forward", "create_graph": create_graph}
    free = memory_of(lambda: laplacian(y, z, chunk_size=20, **ways), z.device).peak_bytes
    given = int(free * share)
    if not fits:  # with a graph each direction keeps what it needs, so less than all of it is too little
        with pytest.raises(DerivativeError, match="too little"):
            laplacian(y, z, max_bytes=given, **ways)
        return
    found = laplacian(y, z, max_bytes=given, **ways)
    torch.testing.assert_close(found, laplacian(y, z, mode="reverse", create_graph=create_graph), rtol=1e-3, atol=1e-5)
    request = read_request(y, z, 0, create_graph)
    chunk = laplacian_module._forward_chunk(request, read_options("forward", "auto", given, None, None))
    assert memory_of(lambda: laplacian(y, z, chunk_size=chunk, **ways), z.device).peak_bytes <= 1.1 * given


def test_too_few_bytes_are_told_with_how_many_it_takes() -> None:
    z = torch.randn(128, 20, requires_grad=True)
    with pytest.raises(DerivativeError, match="needed at least"):
        laplacian(z.sin(), z, max_bytes=100)
    with pytest.raises(UsageError, match="max_bytes is for the forward way"):
        laplacian(z.sin(), z, mode="reverse", max_bytes=10**9)


def test_what_cannot_be_asked_is_refused() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(UsageError, match="mode"):
        laplacian(z.sin(), z, mode="sideways")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="chunk_size"):
        laplacian(z.sin(), z, chunk_size=0)
    with pytest.raises(UsageError, match="real"):
        laplacian(torch.view_as_complex(z).exp(), z)
    with pytest.raises(DerivativeError, match="no way"):
        laplacian(z.sin(), (z * 2))


def test_planted_faults_are_rejected_by_the_truth() -> None:
    net, z = made("mlp")
    y = net(z)
    truth = one_hot_laplacian(y, z)
    request = read_request(y, z, 0, False)
    assert why_not_pushed(request.way, 2) is None
    gradient = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]
    mistaken = torch.autograd.grad(gradient.sum(), z)[0].sum(1)  # all entries of the Hessian for its diagonal
    assert not torch.allclose(mistaken, truth[:, 0])
