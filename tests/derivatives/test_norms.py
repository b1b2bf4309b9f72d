"""The Frobenius norm of each sample's Jacobian, exactly or on average, with a derivative where it is 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives.second_truth import NETS, made, same_gradients
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

from gradwright.derivatives import norms
from gradwright.derivatives.methods.rows import pass_rows
from gradwright.derivatives.norms import jacobian_norm
from gradwright.errors import CoupledBatch, DerivativeError, UsageError

NAMES = sorted(NETS)


def frobenius(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    return torch.linalg.vector_norm(one_hot_jacobian(y, z, create_graph).flatten(1), dim=1)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_norm_of_the_one_hot_jacobian(name: str, create_graph: bool) -> None:
    net, z = made(name)
    y = net(z)
    torch.testing.assert_close(jacobian_norm(y, z, create_graph=create_graph), frobenius(y, z))


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("rows", [2, 40], ids=["few rows", "few columns"])
def test_any_chunk_makes_the_same(rows: int, chunk: int) -> None:
    z = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    y = (z @ torch.randn(6, rows, dtype=torch.float64)).tanh()
    torch.testing.assert_close(jacobian_norm(y, z, chunk_size=chunk), frobenius(y, z))


@pytest.mark.parametrize("name", sorted({*NAMES} - {"relu"}))
def test_its_gradients_are_those_of_one_hots(name: str) -> None:
    net, z = made(name)
    y = net(z)
    same_gradients(jacobian_norm(y, z, create_graph=True), frobenius(y, z, create_graph=True), net)


def test_no_more_than_a_chunk_of_the_jacobian_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    net, z = made("own function")
    y, widths = net(z), []
    monkeypatch.setattr(norms, "jacobian_of", None)
    passed = pass_rows

    def watched(trust: object, chunk: int | None, take: Callable[[int, Tensor], None]) -> None:
        def seen(start: int, blocks: Tensor) -> None:
            widths.append(blocks.shape[1])
            take(start, blocks)

        passed(trust, chunk, seen)  # type: ignore[arg-type]

    monkeypatch.setattr(norms, "pass_rows", watched)
    jacobian_norm(y, z)
    assert widths == [1, 1]


def test_where_it_is_zero_its_derivative_is_zero_to_every_order() -> None:
    scale = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    z = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    norm = jacobian_norm(z * scale, z, create_graph=True)
    (first,) = torch.autograd.grad(norm.sum(), scale, create_graph=True)
    (second,) = torch.autograd.grad(first.sum() + norm.square().sum(), scale)
    assert not norm.any() and not first.any() and not second.any()


@pytest.mark.parametrize("estimator", ["exact", "hutchinson"])
@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_a_single_sample(count: int, estimator: str) -> None:
    net, z = made("mlp", count)
    assert jacobian_norm(net(z), z, estimator=estimator).shape == (count,)  # type: ignore[arg-type]


def test_the_mean_of_hutchinson_s_squares_over_all_signs_is_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    z = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    y = torch.tanh(z @ torch.randn(4, 3, dtype=torch.float64))
    every = iter([1 - 2 * torch.tensor([[n >> i & 1 for i in range(3)]], dtype=torch.float64) for n in range(8)])
    monkeypatch.setattr(norms, "random_signs", lambda like, generator: next(every))
    torch.testing.assert_close(jacobian_norm(y, z, estimator="hutchinson", samples=8), frobenius(y, z))


def test_hutchinson_can_be_differentiated_and_repeated() -> None:
    net, z = made("mlp")
    y, signs = net(z), 2 * torch.randint(0, 2, (3, 2), generator=torch.Generator().manual_seed(1)).double() - 1
    ours = jacobian_norm(y, z, "hutchinson", 1, torch.Generator().manual_seed(1), create_graph=True)
    rows = torch.einsum("bk,bkd->bd", signs, one_hot_jacobian(y, z, create_graph=True))
    torch.testing.assert_close(ours, rows.norm(dim=1))
    same_gradients(ours, rows.norm(dim=1), net)


@pytest.mark.parametrize("estimator", ["exact", "hutchinson"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_samples_that_meet_are_found(create_graph: bool, estimator: str) -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = z.exp() * z.mean(0)
    with pytest.raises(CoupledBatch):
        jacobian_norm(y, z, estimator, create_graph=create_graph)  # type: ignore[arg-type]
    assert not torch.allclose(jacobian_norm(y, z, batch="assume_independent"), frobenius(y, z)), "the case is no trap"
    torch.testing.assert_close(jacobian_norm(y, z, batch="coupled", create_graph=create_graph), frobenius(y, z))


def test_a_gate_that_is_zero_now_is_found_where_its_derivative_counts() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    gate = torch.zeros((), dtype=torch.float64, requires_grad=True)
    y = z.exp() + gate * z.mean(0)
    torch.testing.assert_close(jacobian_norm(y, z), frobenius(y, z))
    for estimator in ("exact", "hutchinson"):
        with pytest.raises(CoupledBatch):
            jacobian_norm(y, z, estimator, create_graph=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [2, 5], ids=["few rows", "few columns"])
def test_hooks_are_obeyed_and_those_that_let_samples_meet_are_found(rows: int) -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    hidden = z.exp()
    hidden.register_hook(lambda cotangent: 2 * cotangent)
    y = (hidden @ torch.randn(3, rows, dtype=torch.float64)).sin()
    torch.testing.assert_close(jacobian_norm(y, z), frobenius(y, z))
    hidden.register_hook(lambda cotangent: cotangent + cotangent.roll(1, 0))
    for estimator in ("exact", "hutchinson"):
        with pytest.raises(CoupledBatch):
            jacobian_norm(y, z, estimator)  # type: ignore[arg-type]


def test_a_hook_that_clips_each_sample_lets_none_meet() -> None:
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    hidden = z.exp()
    hidden.register_hook(lambda cotangent: cotangent.clamp(-0.3, 0.3))
    torch.testing.assert_close(jacobian_norm(hidden.sin(), z), frobenius(hidden.sin(), z))


def test_a_parameter_shared_by_all_samples_and_another_batch_axis() -> None:
    z = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    weight = nn.Parameter(torch.randn(4, 2, dtype=torch.float64))
    y = (z @ weight.T).tanh()
    slopes = (1 - y.square()) * z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(jacobian_norm(y, weight), slopes.norm(dim=1))
    flipped = z.T.detach().requires_grad_()
    torch.testing.assert_close(
        jacobian_norm((weight @ flipped).tanh(), flipped, batch_dim=1), jacobian_norm(y, z).detach()
    )


def test_what_cannot_be_is_refused() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(UsageError, match="estimator"):
        jacobian_norm(z.sin(), z, estimator="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="coupled"):
        jacobian_norm(z.sin(), z, estimator="hutchinson", batch="coupled")
    with pytest.raises(UsageError, match="real"):
        jacobian_norm(torch.complex(z, z), z)
    y = z.exp()
    y.sum().backward()
    with pytest.raises(DerivativeError, match="freed"):
        jacobian_norm(y, z)


def test_a_planted_fault_is_rejected_by_the_truth() -> None:
    net, z = made("mlp")
    y = net(z)
    of_the_sum = torch.autograd.grad(y.sum(), z, retain_graph=True)[0].norm(dim=1)
    assert not torch.allclose(of_the_sum, frobenius(y, z))
