"""Products with one vector: the jvp is the transposed vjp, and an hvp multiplies each sample's own Hessian."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.derivatives.functions import Cube, Normalised, Once
from tests.derivatives.second_truth import NETS, WrittenOut, made, one_hot_hessian, same_gradients
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from gradwright.derivatives import products
from gradwright.derivatives.graph.captured import capture
from gradwright.derivatives.products import hvp, jvp, vjp
from gradwright.errors import CoupledBatch, DerivativeError, NoSecondDerivative, UsageError

NAMES = sorted(NETS)


@pytest.fixture(params=["pushed", "double vjp"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to a jvp, whatever this process did before."""
    monkeypatch.setattr(products, "hook_free", lambda asked: request.param == "pushed")
    return str(request.param)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
def test_a_jvp_is_the_one_hot_jacobian_times_the_tangent(name: str, way: str) -> None:
    net, z = made(name)
    y, t = net(z), numbers(3, 6)
    torch.testing.assert_close(jvp(y, z, t), torch.einsum("bkd,bd->bk", one_hot_jacobian(y, z), t))


@pytest.mark.parametrize("name", NAMES)
def test_the_jvp_is_the_transposed_vjp(name: str, way: str) -> None:
    net, z = made(name)
    y, t, c = net(z), numbers(3, 6), numbers(3, 2, seed=1)
    torch.testing.assert_close((c * jvp(y, z, t)).sum(), (vjp(y, z, c) * t).sum())


@pytest.mark.parametrize("name", sorted({*NAMES} - {"relu", "layer norm"}))
def test_a_jvp_has_the_gradients_of_one_hots(name: str, way: str) -> None:
    net, z = made(name)
    y, t = net(z), numbers(3, 6)
    truth = torch.einsum("bkd,bd->bk", one_hot_jacobian(y, z, create_graph=True), t)
    same_gradients(jvp(y, z, t, create_graph=True), truth, net)


def test_a_layer_norm_is_pushed_rightly_and_never_differentiated_wrongly(way: str) -> None:
    net, z = made("layer norm")
    written_out = nn.Sequential(net[0], WrittenOut(net[1]), *net[2:])
    t = numbers(3, 6)
    if way == "pushed":
        truth = torch.einsum("bkd,bd->bk", one_hot_jacobian(written_out(z), z, create_graph=True), t)
        same_gradients(jvp(net(z), z, t, create_graph=True), truth, net)
    else:
        with pytest.raises(DerivativeError, match="third derivative"):
            jvp(net(z), z, t, create_graph=True)


def test_a_jvp_along_a_parameter_and_of_a_scalar(way: str) -> None:
    net, z = made("mlp")
    weight, t = net[2].weight, numbers(4, 5)
    y = net(z)
    step = 1e-6
    with torch.no_grad():
        weight += step * t
        further = net(z)
        weight -= 2 * step * t
        back = net(z)
        weight += step * t
    y = net(z)
    torch.testing.assert_close(jvp(y, weight, t), (further - back) / (2 * step), atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(jvp(y.sum(), weight, t), jvp(y, weight, t).sum())


def test_a_coupled_batch_is_differentiated_as_it_is(way: str) -> None:
    z = numbers(4, 3).requires_grad_()
    y = z.exp() * z.mean(0)
    whole = torch.autograd.functional.jacobian(lambda z: z.exp() * z.mean(0), z.detach())
    t, c = numbers(4, 3, seed=1), numbers(4, 3, seed=2)
    torch.testing.assert_close(jvp(y, z, t), torch.einsum("bkcd,cd->bk", whole, t))
    torch.testing.assert_close(vjp(y, z, c), torch.einsum("bkcd,bk->cd", whole, c))


def test_complex_numbers_follow_autograd_and_the_real_direction(way: str) -> None:
    z = torch.complex(numbers(3), numbers(3, seed=1)).requires_grad_()
    t, c = torch.complex(numbers(3, seed=2), numbers(3, seed=3)), torch.complex(numbers(3, seed=4), numbers(3, seed=5))
    for f in (lambda z: z.exp() * z, lambda z: z.abs() * z, lambda z: z.conj() * z.real):
        y, step = f(z), 1e-6
        with torch.no_grad():
            slope = (f(z + step * t) - f(z - step * t)) / (2 * step)
        torch.testing.assert_close(jvp(y, z, t), slope, atol=1e-7, rtol=1e-6)
        torch.testing.assert_close((c.conj() * jvp(y, z, t)).sum().real, (vjp(y, z, c).conj() * t).sum().real)


def test_after_a_hook_elsewhere_one_vjp_listens_and_the_tangent_is_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    net, z = made("mlp")
    y, t = net(z), numbers(3, 6)
    other = numbers(2).requires_grad_()
    other.register_hook(lambda cotangent: cotangent)
    monkeypatch.setattr(products, "_double_vjp", None)
    torch.testing.assert_close(jvp(y, z, t), torch.einsum("bkd,bd->bk", one_hot_jacobian(y, z), t))


def test_no_jvp_belongs_to_a_backward_that_is_not_linear() -> None:
    z = numbers(3, 2).requires_grad_()
    with pytest.raises(DerivativeError, match="not linear"):
        jvp(Normalised.apply(z.sin()), z, numbers(3, 2))


def test_hooks_are_obeyed_by_all_of_them() -> None:
    z = numbers(3, 2).requires_grad_()
    hidden = z.exp()
    hidden.register_hook(lambda cotangent: 3 * cotangent)
    y = hidden.square().sum(1)
    t = numbers(3, 2, seed=1)
    torch.testing.assert_close(jvp(y, z, t), (one_hot_jacobian(y, z) * t).sum(1))
    torch.testing.assert_close(hvp(y, z, t), torch.einsum("bij,bj->bi", one_hot_hessian(y, z), t))


@pytest.mark.parametrize("name", NAMES)
def test_an_hvp_is_each_sample_s_own_hessian_times_its_own_vector(name: str) -> None:
    net, z = made(name)
    y, v = net(z)[:, 0], numbers(3, 6)
    truth = torch.einsum("bij,bj->bi", one_hot_hessian(y, z), v)
    torch.testing.assert_close(hvp(y, z, v), truth)
    torch.testing.assert_close(hvp(y, z, v, batch="coupled"), truth)


def test_an_hvp_is_symmetric_and_differentiable() -> None:
    net, z = made("mlp")
    y, v, u = net(z)[:, 0], numbers(3, 6), numbers(3, 6, seed=1)
    torch.testing.assert_close((u * hvp(y, z, v)).sum(1), (v * hvp(y, z, u)).sum(1))
    truth = torch.einsum("bij,bj->bi", one_hot_hessian(y, z, create_graph=True), v)
    same_gradients(hvp(y, z, v, create_graph=True), truth, net)
    same_gradients(hvp(y, z, v, create_graph=True, batch="coupled"), truth, net)


def test_an_hvp_of_a_scalar_is_that_of_the_whole_batch() -> None:
    z, v = numbers(4, 3).requires_grad_(), numbers(4, 3, seed=1)
    whole = torch.autograd.functional.hessian(lambda z: (z.exp() * z.mean(0)).sum(), z.detach())
    expected = torch.einsum("bicj,cj->bi", whole, v)
    torch.testing.assert_close(hvp((z.exp() * z.mean(0)).sum(), z, v), expected)


def test_an_hvp_along_a_parameter_is_that_of_the_sum() -> None:
    net, z = made("mlp")
    v = numbers(5, seed=1)
    y = net(z)[:, 0]
    whole = torch.autograd.functional.hessian(
        lambda shift: net[1:](z @ net[0].weight.T + shift)[:, 0].sum(), net[0].bias.detach()
    )
    torch.testing.assert_close(hvp(y, net[0].bias, v), whole @ v)


@pytest.mark.parametrize(
    "coupled",
    [lambda z: (z.exp() * z.mean(0)).sum(1), lambda z: (z - z.detach()).roll(1, 0).square().sum(1)],
    ids=["mean", "rolled, at the bottom"],
)
def test_an_hvp_of_samples_that_meet_is_told(coupled: Callable[[Tensor], Tensor]) -> None:
    z, v = numbers(4, 3).requires_grad_(), numbers(4, 3, seed=1)
    y = coupled(z)
    truth = torch.einsum("bij,bj->bi", one_hot_hessian(y, z), v)
    with pytest.raises(CoupledBatch):
        hvp(y, z, v)
    assert not torch.allclose(hvp(y, z, v, batch="assume_independent"), truth), "the case is no trap"
    torch.testing.assert_close(hvp(y, z, v, batch="coupled"), truth)


def test_the_batch_may_lie_along_another_axis() -> None:
    z, v = numbers(3, 4).requires_grad_(), numbers(3, 4, seed=1)
    y = Cube.apply(z).sum(0)
    torch.testing.assert_close(hvp(y, z, v, batch_dim=(0, 1)), 6 * z * v)
    torch.testing.assert_close(hvp(y, z, v, batch_dim=(0, 1), batch="coupled"), 6 * z * v)


def test_a_linear_function_has_no_curvature() -> None:
    z = numbers(3, 2).requires_grad_()
    y = nn.Linear(2, 1, dtype=z.dtype)(z)[:, 0]
    for batch in ("auto", "coupled"):
        assert not hvp(y, z, numbers(3, 2), batch=batch).any()  # type: ignore[arg-type]


def test_functions_and_captured_layers_will_do(way: str) -> None:
    net, z = made("mlp")
    x, t, c = z.detach(), numbers(3, 6), numbers(3, 2)
    y = net(z)
    torch.testing.assert_close(jvp(net, x, t), jvp(y, z, t))
    torch.testing.assert_close(vjp(net, x, c), vjp(y, z, c))
    with capture(net[1]) as hidden:
        y = net(z)
    torch.testing.assert_close(vjp(y, hidden, c), torch.autograd.grad(y, hidden.edge, c)[0])


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_a_single_sample(count: int, way: str) -> None:
    net, z = made("mlp", count)
    y = net(z)
    assert jvp(y, z, torch.ones_like(z)).shape == y.shape
    assert vjp(y, z, torch.ones_like(y)).shape == z.shape
    assert hvp(y[:, 0], z, torch.ones_like(z)).shape == z.shape


def test_nothing_of_the_caller_s_is_changed(way: str) -> None:
    net, z = made("mlp")
    y, state, hooks = net(z), torch.get_rng_state(), RemovableHandle.next_id
    jvp(y, z, torch.ones_like(z))
    vjp(y, z, torch.ones_like(y))
    hvp(y[:, 0], z, torch.ones_like(z))
    assert torch.equal(state, torch.get_rng_state()) and RemovableHandle.next_id == hooks
    assert all(parameter.grad is None for parameter in net.parameters())
    y.sum().backward()
    for product in (lambda: jvp(y, z, torch.ones_like(z)), lambda: vjp(y, z, torch.ones_like(y))):
        with pytest.raises(DerivativeError, match="freed"):
            product()


def test_what_cannot_be_is_refused_with_its_reason() -> None:
    z = numbers(3, 2).requires_grad_()
    y, t = z.sin(), numbers(3, 2)
    for needs_two in (
        lambda: jvp(Once.apply(z), z, t),
        lambda: hvp(Once.apply(z).sum(1), z, t),
        lambda: vjp(Once.apply(z), z, t, create_graph=True),
    ):
        with pytest.raises(NoSecondDerivative, match="OnceBackward"):
            needs_two()
    with pytest.raises(UsageError, match="shape of y"):
        vjp(y, z, torch.ones(2))
    with pytest.raises(UsageError, match="shape of wrt"):
        jvp(y, z, torch.ones(2))
    with pytest.raises(UsageError, match="real"):
        vjp(y, z, torch.complex(t, t))
    with pytest.raises(UsageError, match="one value per sample"):
        hvp(y, z, t)
    with pytest.raises(DerivativeError, match="no way"):
        vjp(y, z * 1, t)
    with pytest.raises(UsageError, match="y is a list"):
        vjp([1.0], z, t)  # type: ignore[arg-type]


def test_a_planted_fault_is_rejected_by_the_truth(way: str) -> None:
    net, z = made("mlp")
    y, t = net(z), numbers(3, 6)
    assert not torch.allclose(jvp(y, z, t * 1.001), torch.einsum("bkd,bd->bk", one_hot_jacobian(y, z), t))
