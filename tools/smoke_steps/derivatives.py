"""Derivatives of a whole batch, kernels, and torch's own conventions at ties."""

from __future__ import annotations

from collections.abc import Callable

import torch
from smoke_steps.checking import draw
from torch import Tensor, nn

import gradwright as gw
from gradwright.ground.memory import memory_of


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2)).double()


def jacobians_equal_torchs() -> None:
    """gw.batch_jacobian, batch_hessian and laplacian equal torch.func's."""
    network, x = make_network(), draw(4, 3)

    def first(x: Tensor) -> Tensor:
        return network(x)[..., 0]

    hessians = torch.func.vmap(torch.func.hessian(first))(x.detach())
    assert torch.allclose(gw.batch_jacobian(network(x), x), torch.func.vmap(torch.func.jacrev(network))(x.detach()))
    assert torch.allclose(gw.batch_hessian(first(x), x), hessians)
    assert torch.allclose(gw.laplacian(first(x), x), hessians.diagonal(dim1=1, dim2=2).sum(1))


def per_sample_gradients_equal_a_loop() -> None:
    """gw.per_sample_gradients equal one backward a sample."""
    network, x = make_network(), draw(4, 3).detach()
    found = gw.per_sample_gradients(network(x).square().sum(1), network)
    parameters = dict(network.named_parameters())
    for row in range(len(x)):
        one = torch.autograd.grad(network(x[row : row + 1]).square().sum(), list(parameters.values()))
        for name, expected in zip(parameters, one, strict=True):
            assert torch.allclose(found[name][row], expected), name


def answers_are_of_public_types() -> None:
    """What the derivatives answer with, and their errors."""
    network, x = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double(), draw(4, 3)
    assert isinstance(gw.plan(x.sin(), wrt=x), gw.Plan)
    assert isinstance(gw.check_batch_independence(x.sin(), x), gw.Independence)
    with gw.capture(network[0]) as captured:
        network(x)
    assert isinstance(captured, gw.Captured)
    expect(gw.CoupledBatch, lambda: gw.batch_jacobian(network(x), x))
    assert issubclass(gw.CoupledBatch, gw.DerivativeError) and issubclass(gw.NoSecondDerivative, gw.DerivativeError)


def expect(error: type[Exception], call: Callable[[], object]) -> None:
    """``call`` has to raise it."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


def elementwise_is_transformed() -> None:
    """gw.elementwise: value, gradient, vmap of grad, torch.compile."""
    bent = gw.elementwise("exp(-x*x) * log(1 + exp(y))")
    assert isinstance(bent, gw.Elementwise)
    x, y = draw(4, 3), draw(4, 3)
    plain = torch.exp(-x * x) * torch.log1p(torch.exp(y))
    assert torch.allclose(bent(x=x, y=y), plain)
    found = torch.autograd.grad(bent(x=x, y=y).sum(), (x, y))
    for one, expected in zip(found, torch.autograd.grad(plain.sum(), (x, y)), strict=True):
        assert torch.allclose(one, expected)
    wave = gw.elementwise("sin(t) * t")
    t = draw(5).detach()
    assert torch.allclose(torch.func.vmap(torch.func.grad(lambda t: wave(t=t)))(t), t.cos() * t + t.sin())
    product = gw.elementwise("x * y", reduction="sum", dim=0)
    compiled = torch.compile(lambda x, y: product(x, y).sum(), backend="aot_eager", fullgraph=True, dynamic=True)
    assert torch.allclose(torch.autograd.grad(compiled(x, y), x)[0], y)


def kernels_are_machine_code() -> None:
    """Kernels are machine code by LLVM here, not plain torch."""
    bent = gw.elementwise("sin(x) * x")
    assert bent.plan(x=torch.ones(64)).backend == "numba", bent.plan(x=torch.ones(64))


TIES: tuple[tuple[str, Callable[..., Tensor], tuple[list[float], ...]], ...] = (
    ("clamp(x, 0, 1)", lambda x: x.clamp(0, 1), ([0.0, 0.5, 1.0, -1.0],)),
    ("clamp(x, min=0)", lambda x: x.clamp(min=0), ([0.0, 1.0],)),
    ("clamp(x, max=1)", lambda x: x.clamp(max=1), ([1.0, 0.0],)),
    ("maximum(x, y)", torch.maximum, ([0.0, 1.0], [0.0, 0.0])),
    ("minimum(x, y)", torch.minimum, ([0.0, 1.0], [0.0, 0.0])),
    ("abs(x)", torch.abs, ([0.0, 1.0],)),
    ("relu(x)", torch.relu, ([0.0, 1.0],)),
)


def ties_are_torchs() -> None:
    """gw.elementwise at ties and bounds: the gradient is this torch's own."""
    differ = []
    for formula, of_torch, numbers in TIES:
        found, expected = (differentiate(each, numbers) for each in (gw.elementwise(formula), of_torch))
        if found != expected:
            differ.append(f"{formula} at {numbers}: ours {found}, torch's {expected}")
    assert not differ, "; ".join(differ)


def jacobians_at_ties_are_torchs() -> None:
    """gw.batch_jacobian at ties: that of this torch's backward."""
    for function in (torch.fmax, torch.fmin, torch.maximum, lambda x, y: x.clamp(min=y)):
        x, y = (torch.tensor(each, requires_grad=True) for each in ([[0.0], [1.0]], [[0.0], [0.0]]))
        (expected,) = torch.autograd.grad(function(x, y).sum(), x)
        assert torch.equal(gw.batch_jacobian(function(x, y), x).flatten(), expected.flatten()), function


def differentiate(function: Callable[..., Tensor], numbers: tuple[list[float], ...]) -> list[list[float]]:
    given = [torch.tensor(each, requires_grad=True) for each in numbers]
    return [each.tolist() for each in torch.autograd.grad(function(*given).sum(), given)]


def bytes_are_counted() -> None:
    """Bytes at once are counted by torch's profiler."""
    taken = memory_of(lambda: torch.zeros(1000) + torch.zeros(1000), torch.device("cpu"))
    assert (taken.peak_bytes, taken.kept_bytes) == (12000, 4000), taken


STEPS = (
    jacobians_equal_torchs,
    per_sample_gradients_equal_a_loop,
    answers_are_of_public_types,
    elementwise_is_transformed,
    kernels_are_machine_code,
    ties_are_torchs,
    jacobians_at_ties_are_torchs,
    bytes_are_counted,
)
