"""The divergence is the trace of each sample's Jacobian, exactly or on average."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
from tests.derivatives.functions import Cubed, Once
from tests.derivatives.second_truth import made, same_gradients
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives.derivation import jacobian_of
from gradwright.derivatives.divergences import divergence
from gradwright.derivatives.graph.options import read_options
from gradwright.derivatives.graph.request import read_request
from gradwright.errors import CoupledBatch, DerivativeError, NoSecondDerivative, UsageError

#: The module; the package has a function of that name.
divergence_module = importlib.import_module("gradwright.derivatives.divergences")

FIELDS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)),
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 6)),
    "own function": lambda: nn.Sequential(nn.Linear(6, 5), Cubed(), nn.Linear(5, 6)),
}


def field(name: str, count: int = 3) -> tuple[nn.Module, Tensor]:
    _, z = made("mlp", count)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return FIELDS[name]().double(), z


def trace(v: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    return one_hot_jacobian(v, z, create_graph).reshape(len(v), v[0].numel(), -1).diagonal(dim1=1, dim2=2).sum(1)


@pytest.mark.parametrize("chunk", [None, 1, 4])
@pytest.mark.parametrize("name", sorted(FIELDS))
def test_it_is_the_trace_of_the_one_hot_jacobian(name: str, chunk: int | None) -> None:
    net, z = field(name)
    v = net(z)
    torch.testing.assert_close(divergence(v, z, chunk_size=chunk), trace(v, z))


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_its_gradients_are_those_of_one_hots(name: str) -> None:
    net, z = field(name)
    v = net(z)
    same_gradients(divergence(v, z, create_graph=True), trace(v, z, create_graph=True), net)


@pytest.mark.parametrize("create_graph", [False, True])
def test_by_rows_it_is_the_same(monkeypatch: pytest.MonkeyPatch, create_graph: bool) -> None:
    net, z = field("mlp")
    v = net(z)
    unfit = type(divergence_module.PUSHED)("pushed", "columns", lambda request: "not today", lambda *rest: v)
    monkeypatch.setattr(divergence_module, "PUSHED", unfit)
    ours = divergence(v, z, create_graph=create_graph)
    torch.testing.assert_close(ours, trace(v, z))
    if create_graph:
        same_gradients(ours, trace(v, z, create_graph=True), net)


def test_it_is_the_trace_of_the_batch_jacobian() -> None:
    net, z = field("mlp")
    v = net(z)
    blocks = jacobian_of(read_request(v, z, 0, False), read_options("auto", "auto", None, None, None))
    torch.testing.assert_close(divergence(v, z), blocks.diagonal(dim1=1, dim2=2).sum(1))


def test_samples_may_have_several_axes_and_lie_along_any() -> None:
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(divergence(z**3, z, batch_dim=1), (3 * z**2).sum((0, 2)))
    torch.testing.assert_close(divergence(lambda z: z**3, z.detach()), (3 * z**2).sum((1, 2)).detach())


@pytest.mark.parametrize("estimator", ["exact", "hutchinson"])
@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_a_single_sample(count: int, estimator: str) -> None:
    net, z = field("mlp", count)
    assert divergence(net(z), z, estimator=estimator).shape == (count,)  # type: ignore[arg-type]


def test_hutchinson_s_mean_over_all_signs_is_the_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    z = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    v = torch.tanh(z @ torch.randn(4, 4, dtype=torch.float64))
    every = iter([1 - 2 * torch.tensor([[n >> i & 1 for i in range(4)]], dtype=torch.float64) for n in range(16)])
    monkeypatch.setattr(divergence_module, "random_signs", lambda like, generator: next(every))
    torch.testing.assert_close(divergence(v, z, estimator="hutchinson", samples=16), trace(v, z))


def test_hutchinson_is_unbiased_where_samples_meet_too(monkeypatch: pytest.MonkeyPatch) -> None:
    z = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    v = z.exp() * z.mean(0)
    every = iter(
        [1 - 2 * torch.tensor([n >> i & 1 for i in range(4)], dtype=torch.float64).reshape(2, 2) for n in range(16)]
    )
    monkeypatch.setattr(divergence_module, "random_signs", lambda like, generator: next(every))
    torch.testing.assert_close(divergence(v, z, estimator="hutchinson", samples=16), trace(v, z))


def test_signs_come_from_the_generator_given_or_from_torch_s_own() -> None:
    net, z = field("mlp")
    v = net(z)

    def estimate(generator: torch.Generator | None) -> Tensor:
        return divergence(v, z, estimator="hutchinson", generator=generator)

    one, other = (estimate(torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one, other)
    state = torch.get_rng_state()
    estimate(torch.Generator())
    assert torch.equal(state, torch.get_rng_state())
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first, second = estimate(None), estimate(None)
        torch.manual_seed(5)
        assert torch.equal(first, estimate(None)) and not torch.equal(first, second)


def test_hutchinson_can_be_differentiated() -> None:
    net, z = field("mlp")
    v, signs = net(z), 2 * torch.randint(0, 2, (3, 6), generator=torch.Generator().manual_seed(1)).double() - 1
    ours = divergence(v, z, "hutchinson", 1, torch.Generator().manual_seed(1), create_graph=True)
    blocks = one_hot_jacobian(v, z, create_graph=True)
    same_gradients(ours, torch.einsum("bi,bij,bj->b", signs, blocks, signs), net)


def test_samples_that_meet_are_found_and_can_be_taken_apart() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    v = z.exp() * z.mean(0)
    with pytest.raises(CoupledBatch):
        divergence(v, z)
    assert not torch.allclose(divergence(v, z, batch="assume_independent"), trace(v, z)), "the case is no trap"
    torch.testing.assert_close(divergence(v, z, batch="coupled"), trace(v, z))


def test_hooks_are_obeyed_and_those_that_let_samples_meet_are_found() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    hidden = z.exp()
    hidden.register_hook(lambda cotangent: 2 * cotangent)
    v = hidden.sin()
    torch.testing.assert_close(divergence(v, z), trace(v, z))
    hidden.register_hook(lambda cotangent: cotangent + cotangent.roll(1, 0))
    with pytest.raises(CoupledBatch):
        divergence(v, z)


def test_what_cannot_be_is_refused() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(UsageError, match="shape of wrt"):
        divergence(z.sum(1, keepdim=True), z)
    with pytest.raises(UsageError, match="estimator"):
        divergence(z.sin(), z, estimator="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="samples"):
        divergence(z.sin(), z, estimator="hutchinson", samples=0)
    with pytest.raises(UsageError, match="real"):
        divergence(torch.complex(z, z), z)

    with pytest.raises(NoSecondDerivative):
        divergence(Once.apply(z), z, create_graph=True)
    v = z.exp()
    v.sum().backward()
    with pytest.raises(DerivativeError, match="freed"):
        divergence(v, z)


def test_a_planted_fault_is_rejected_by_the_truth() -> None:
    net, z = field("mlp")
    v = net(z)
    row_sums = torch.autograd.grad(v.sum(), z, retain_graph=True)[0].sum(1)  # grad_outputs = ones is no divergence
    assert not torch.allclose(row_sums, trace(v, z))
