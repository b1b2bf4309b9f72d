"""Every method makes the Jacobian that one backward per sample and output makes, and differentiates like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.methods.batched import BATCHED
from gradwright.derivatives.methods.carrying import vmap_unfit
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.method import Method, every_direction
from gradwright.derivatives.methods.one_hots import one_hots
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.sum_trick import SUM_TRICK

METHODS = {method.name: method for method in (SUM_TRICK, BATCHED, DOUBLE_VJP, PUSHED)}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 2)).double()


class Grid(nn.Module):
    """One sample's output and target have several axes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(2, 3, 3, padding=1).double(), nn.Conv1d(3, 2, 3).double()

    def forward(self, z: Tensor) -> Tensor:
        made: Tensor = self.second(self.first(z).tanh())
        return made


class Products(nn.Module):
    """A way that forks, and joins in products."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.stack([z.sin() * z.cos(), (z * z).exp()], 1) / (1 + z.square().sum(1)[:, None, None])


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (4, 3)),
    "convolutions": (Grid, (3, 2, 5)),
    "products": (Products, (4, 3)),
}


@pytest.fixture(params=list(NETWORKS))
def network(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    make, shape = NETWORKS[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return make(), torch.randn(shape, dtype=torch.float64, requires_grad=True)


def run(method: Method, request: Request, chunk: int) -> Tensor:
    blocks = method.run(request, every_direction(request, method.side), chunk)
    return blocks.reshape(request.samples, *request.rows, *request.columns)


def penalty_gradients(jacobian: Tensor, net: nn.Module, z: Tensor) -> list[Tensor]:
    """Gradients of a penalty on the Jacobian: what a training step goes on to compute."""
    leaves = [z, *net.parameters()]
    grads = torch.autograd.grad(jacobian.pow(3).sum(), leaves, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads, strict=True)]


@pytest.mark.parametrize("chunk", (1, 2, 100))
@pytest.mark.parametrize("name", METHODS)
def test_a_method_makes_the_one_hot_jacobian(name: str, chunk: int, network: tuple[nn.Module, Tensor]) -> None:
    net, z = network
    y = net(z)
    request = read_request(y, z, 0, False)
    assert METHODS[name].unfit(request) is None
    made = run(METHODS[name], request, chunk)
    assert not made.requires_grad
    torch.testing.assert_close(made, one_hot_jacobian(y, z), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("chunk", (1, 3))
@pytest.mark.parametrize("name", METHODS)
def test_a_method_differentiates_like_the_one_hot_jacobian(
    name: str, chunk: int, network: tuple[nn.Module, Tensor]
) -> None:
    net, z = network
    y = net(z)
    made = run(METHODS[name], read_request(y, z, 0, True), chunk)
    truth = one_hot_jacobian(y, z, create_graph=True)
    torch.testing.assert_close(made, truth, rtol=1e-12, atol=1e-13)
    for ours, theirs in zip(penalty_gradients(made, net, z), penalty_gradients(truth, net, z), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("create_graph", (False, True), ids=("plain", "create_graph"))
@pytest.mark.parametrize("chunk", (1, 4, 1000))
def test_one_hots_make_the_one_hot_jacobian(chunk: int, create_graph: bool, network: tuple[nn.Module, Tensor]) -> None:
    net, z = network
    y = net(z)
    request = read_request(y, z, 0, create_graph)
    made = one_hots(request, chunk).reshape(request.samples, *request.rows, *request.columns)
    truth = one_hot_jacobian(y, z, create_graph)
    torch.testing.assert_close(made, truth, rtol=1e-12, atol=1e-13)
    if create_graph:
        for ours, theirs in zip(penalty_gradients(made, net, z), penalty_gradients(truth, net, z), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("create_graph", (False, True), ids=("plain", "create_graph"))
@pytest.mark.parametrize("coupling", ("batch norm", "attention over the batch"))
def test_one_hots_are_exact_where_samples_meet(coupling: str, create_graph: bool) -> None:
    z = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).sin().requires_grad_()
    y = nn.BatchNorm1d(3).double()(z) if coupling == "batch norm" else (z @ z.T).softmax(1) @ z
    made = one_hots(read_request(y, z, 0, create_graph), 4)
    truth = one_hot_jacobian(y, z, create_graph)
    torch.testing.assert_close(made, truth, rtol=1e-12, atol=1e-13)
    if create_graph:
        ours, theirs = (
            torch.autograd.grad(jacobian.pow(3).sum(), z, retain_graph=True)[0] for jacobian in (made, truth)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ("sum trick", "batched"))
def test_rows_take_the_batch_from_any_axis(name: str) -> None:
    z = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)  # the batch is axis 1
    y = (z.sin() * z.sum((0, 2), keepdim=True)).permute(1, 0, 2)
    made = METHODS[name].run(read_request(y, z, (0, 1), False), torch.eye(6, dtype=torch.float64), 2)
    rows = [torch.autograd.grad(y[b].reshape(-1)[k], z, retain_graph=True)[0][:, b] for b in range(4) for k in range(6)]
    truth = torch.stack(rows).reshape(4, 6, 6)
    torch.testing.assert_close(made, truth, rtol=1e-12, atol=1e-13)


class Halved(torch.autograd.Function):
    """A backward that is not the transpose of the derivative, and detached: what double vjp would get wrong."""

    @staticmethod
    def forward(ctx: object, z: Tensor) -> Tensor:
        return 2 * z

    @staticmethod
    def backward(ctx: object, cotangent: Tensor) -> Tensor:
        return cotangent.detach().clone()


def test_a_custom_function_is_unfit_for_what_assumes_its_backward() -> None:
    z = torch.ones(2, 3, requires_grad=True)
    request = read_request(Halved.apply(z), z, 0, False)
    assert "HalvedBackward is not known" in str(DOUBLE_VJP.unfit(request))
    assert "HalvedBackward is a Function written in Python" in str(BATCHED.unfit(request))
    assert PUSHED.unfit(request) is not None
    assert SUM_TRICK.unfit(request) is None


def test_a_layer_norm_is_unfit_for_vmap_only_where_it_is_differentiated_again() -> None:
    z = torch.randn(2, 3, requires_grad=True)
    y = nn.functional.layer_norm(z, (3,))
    assert vmap_unfit(read_request(y, z, 0, False)) is None
    assert "wrongly" in str(vmap_unfit(read_request(y, z, 0, True)))


def test_columns_are_unfit_where_dtypes_differ() -> None:
    z = torch.randn(2, 3, requires_grad=True)
    assert "another dtype" in str(DOUBLE_VJP.unfit(read_request(z.half().sin(), z, 0, False)))


def test_shared_rows_are_unfit_for_a_wrt_without_samples() -> None:
    weight = nn.Parameter(torch.ones(3))
    y = torch.ones(4, 3) * weight
    for method in (SUM_TRICK, BATCHED):
        assert "sums over them" in str(method.unfit(read_request(y, weight, 0, False)))


def test_the_truth_is_not_met_by_rows_of_a_coupled_batch() -> None:
    z = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    y = nn.BatchNorm1d(3).double()(z)
    made = run(SUM_TRICK, read_request(y, z, 0, False), 1)
    assert (made - one_hot_jacobian(y, z)).abs().max() > 0.1


def in_a_buffer(z: Tensor) -> Tensor:
    buffer = torch.zeros_like(z)
    buffer[:, 1:] = z[:, :2].exp()
    return buffer


def test_what_vmap_gets_wrong_goes_one_by_one() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.cdist(z.reshape(4, 3, 1), torch.ones(4, 2, 1, dtype=torch.float64)).flatten(1)
    request = read_request(y, z, 0, False)
    assert "wrong under vmap" in str(BATCHED.unfit(request))
    torch.testing.assert_close(one_hots(request, 5), one_hot_jacobian(y, z))


@pytest.mark.parametrize("name", ("mish", "unfold", "an unknown operation"))
def test_what_vmap_has_no_rule_for_goes_one_by_one(name: str) -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    makers: dict[str, Callable[[Tensor], Tensor]] = {
        "mish": nn.functional.mish,
        "unfold": lambda z: z.unfold(1, 2, 1).flatten(1).square(),
        "an unknown operation": in_a_buffer,
    }
    y = makers[name](z)
    request = read_request(y, z, 0, False)
    assert BATCHED.unfit(request) is not None
    torch.testing.assert_close(one_hots(request, 5), one_hot_jacobian(y, z))
