"""``gw.batch_jacobian`` and ``gw.batch_gradient``: every way to ask gives one-hot truth, or says why it can't."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from gradwright.derivatives.graph.captured import capture
from gradwright.derivatives.jacobian import batch_gradient, batch_jacobian
from gradwright.errors import CoupledBatch, DerivativeError, UsageError

DOUBLE = torch.float64


def mlp(columns: int = 3, rows: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(columns, 5), nn.Tanh(), nn.Linear(5, rows)).to(DOUBLE)


def points(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)).requires_grad_()


def same(ours: Tensor, truth: Tensor) -> None:
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-13)


OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "reverse": {"mode": "reverse"},
    "forward": {"mode": "forward"},
    "coupled": {"batch": "coupled"},
    "assumed": {"batch": "assume_independent"},
    "chunks of one": {"chunk_size": 1},
    "chunks of three": {"chunk_size": 3, "mode": "reverse"},
    "little memory": {"max_bytes": 100_000},
    "everything possible": {"sparsity": torch.ones(2, 3, dtype=torch.bool)},
}


@pytest.mark.parametrize("create_graph", (False, True), ids=("plain", "create_graph"))
@pytest.mark.parametrize("name", OPTIONS)
def test_no_option_changes_the_result(name: str, create_graph: bool) -> None:
    z = points(4, 3)
    net = mlp()
    y = net(z)
    made = batch_jacobian(y, wrt=z, create_graph=create_graph, **OPTIONS[name])
    truth = one_hot_jacobian(y, z, create_graph)
    assert made.requires_grad == create_graph
    same(made, truth)
    if create_graph:
        for leaf in (z, *list(net.parameters())[:3]):
            ours, theirs = (torch.autograd.grad(j.pow(3).sum(), leaf, retain_graph=True)[0] for j in (made, truth))
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch_dim", (0, -2, (0, 0), (-2, -2)), ids=str)
def test_the_batch_axis_is_counted_from_either_end(batch_dim: int | tuple[int, int]) -> None:
    z = points(4, 3)
    y = mlp()(z)
    same(batch_jacobian(y, wrt=z, batch_dim=batch_dim), one_hot_jacobian(y, z))


def test_output_and_target_have_their_batches_where_batch_dim_says() -> None:
    z = points(3, 4)
    y = mlp()(z.T)
    truth = torch.stack([torch.stack([torch.autograd.grad(y[b, k], z, retain_graph=True)[0][:, b] for k in range(2)])
                         for b in range(4)])  # fmt: skip
    same(batch_jacobian(y, wrt=z, batch_dim=(0, 1)), truth)
    same(batch_jacobian(y.T, wrt=z, batch_dim=1), truth)


def test_one_output_per_sample_needs_no_axis() -> None:
    z = points(4, 3)
    y = mlp()(z).square().sum(1)
    same(batch_jacobian(y, wrt=z), one_hot_jacobian(y, z))
    same(batch_gradient(y, wrt=z), one_hot_jacobian(y, z))
    same(batch_gradient(y[:, None], wrt=z), one_hot_jacobian(y, z))


def test_a_gradient_of_several_outputs_is_refused() -> None:
    z = points(4, 3)
    with pytest.raises(UsageError, match="2 entries per sample"):
        batch_gradient(mlp()(z), wrt=z)


def test_one_number_per_sample_on_both_sides() -> None:
    z = points(4)
    same(batch_jacobian(z.sin(), wrt=z), z.detach().cos())


@pytest.mark.parametrize("samples, rows, columns", ((0, 2, 3), (4, 0, 3), (4, 2, 0)), ids=str)
@pytest.mark.parametrize("batch", ("auto", "coupled"))
def test_nothing_has_an_empty_jacobian(samples: int, rows: int, columns: int, batch: Any) -> None:
    z = points(samples, columns)
    y = z.sum(1, keepdim=True).expand(samples, rows) * 1
    made = batch_jacobian(y, wrt=z, batch=batch)
    assert made.shape == (samples, rows, columns)
    assert made.dtype == DOUBLE


def test_one_sample_is_never_compared() -> None:
    z = points(1, 3)
    y = nn.functional.layer_norm(z, (3,)) * z.std()
    same(batch_jacobian(y, wrt=z), one_hot_jacobian(y, z))


def test_a_function_is_called_at_wrt() -> None:
    net, x = mlp(), points(4, 3).detach()
    same(batch_jacobian(net, x), one_hot_jacobian(net(z := x.clone().requires_grad_()), z))
    assert not x.requires_grad


def test_the_derivatives_of_a_function_lead_back_to_what_wrt_came_from() -> None:
    x = points(4, 3)
    made = batch_jacobian(torch.sin, x * 2, create_graph=True)
    (grad,) = torch.autograd.grad(made.sum(), x)
    same(grad, -2 * (2 * x.detach()).sin())


@pytest.mark.parametrize("how", ("tensor", "edge", "captured"))
def test_a_hidden_layer_is_named_in_three_ways(how: str) -> None:
    net, x = mlp(), points(4, 3)
    with capture(net[1]) as captured:
        y = net(x)
    hidden = net[1](net[0](x))
    tail = net[2](hidden)
    wrt = {"tensor": hidden, "edge": get_gradient_edge(hidden), "captured": captured}[how]
    truth = one_hot_jacobian(tail, hidden)
    same(batch_jacobian(y if how == "captured" else tail, wrt=wrt), truth)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ("auto", "reverse", "forward"))
def test_a_parameter_belongs_to_all_samples(mode: Any) -> None:
    net, x = mlp(), points(4, 3).detach()
    y, weight = net(x), net[0].weight
    truth = torch.stack(
        [torch.autograd.grad(y[b, k], weight, retain_graph=True)[0] for b in range(4) for k in range(2)]
    )
    same(batch_jacobian(y, wrt=weight, mode=mode), truth.reshape(4, 2, 5, 3))


@pytest.mark.parametrize("mode", ("auto", "reverse", "forward"))
def test_a_hook_between_a_parameter_and_the_output_is_part_of_the_truth(mode: Any) -> None:
    net, x = mlp(), points(4, 3).detach()
    hidden = net[0](x)
    hidden.register_hook(lambda cotangent: 3 * cotangent)
    y, bias = net[1:](hidden), net[0].bias
    truth = torch.stack([torch.autograd.grad(y[b, k], bias, retain_graph=True)[0] for b in range(4) for k in range(2)])
    if mode == "forward":
        with pytest.raises(DerivativeError, match="a hook"):
            batch_jacobian(y, wrt=bias, mode=mode)
    else:
        same(batch_jacobian(y, wrt=bias, mode=mode), truth.reshape(4, 2, 5))


def test_a_parameter_behind_a_coupled_batch_is_exact() -> None:
    net, x = nn.Sequential(mlp(), nn.BatchNorm1d(2).to(DOUBLE)), points(4, 3).detach()
    y, weight = net(x), net[0][2].weight
    truth = torch.stack(
        [torch.autograd.grad(y[b, k], weight, retain_graph=True)[0] for b in range(4) for k in range(2)]
    )
    torch.testing.assert_close(batch_jacobian(y, wrt=weight), truth.reshape(4, 2, 2, 5), rtol=1e-9, atol=1e-11)


def test_samples_that_meet_are_an_error_and_exact_where_it_is_said() -> None:
    z = points(6, 3)
    y = nn.Sequential(mlp(), nn.BatchNorm1d(2).to(DOUBLE))(z)
    with pytest.raises(CoupledBatch, match='batch="coupled" is exact'):
        batch_jacobian(y, wrt=z)
    same(batch_jacobian(y, wrt=z, batch="coupled"), one_hot_jacobian(y, z))


def test_samples_that_are_assumed_apart_are_not_looked_at() -> None:
    z = points(6, 3)
    y = nn.Sequential(mlp(), nn.BatchNorm1d(2).to(DOUBLE))(z)
    wrong = batch_jacobian(y, wrt=z, batch="assume_independent", mode="reverse")
    assert (wrong - one_hot_jacobian(y, z)).abs().max() > 1e-3


@pytest.mark.parametrize("mode", ("auto", "reverse"))
def test_a_hook_that_scales_is_part_of_the_truth(mode: Any) -> None:
    z = points(4, 2)
    hidden = z * 1
    hidden.register_hook(lambda cotangent: 3 * cotangent)
    y = mlp(2, 6)(hidden)
    same(batch_jacobian(y, wrt=z, mode=mode), one_hot_jacobian(y, z))


def test_forward_mode_says_that_it_does_not_meet_hooks() -> None:
    z = points(4, 2)
    hidden = z * 1
    hidden.register_hook(lambda cotangent: 3 * cotangent)
    with pytest.raises(DerivativeError):
        batch_jacobian(mlp(2, 6)(hidden), wrt=z, mode="forward")


def test_a_hook_that_needs_values_is_called_without_vmap() -> None:
    z = points(4, 2)
    hidden, seen = z * 1, []
    hidden.register_hook(lambda cotangent: seen.append(cotangent.sum().item()))
    y = mlp(2, 6)(hidden)
    for options in ({"mode": "reverse", "chunk_size": 3}, {"batch": "coupled"}):
        same(batch_jacobian(y, wrt=z, **options), one_hot_jacobian(y, z))  # type: ignore[arg-type]


def test_a_complex_output_of_a_real_target() -> None:
    z = points(4, 3)
    y = torch.polar(mlp()(z), mlp(3, 2)(z) + 1)
    truth = torch.complex(one_hot_jacobian(torch.view_as_real(y)[..., 0], z), one_hot_jacobian(y.imag, z))
    same(batch_jacobian(y, wrt=z), truth)
    same(batch_jacobian(y, wrt=z, batch="coupled"), truth)


def test_a_holomorphic_function_has_its_derivative_and_not_the_conjugate() -> None:
    z = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(3)).requires_grad_()
    made = batch_jacobian(z * z * (2 + 1j), wrt=z)
    same(made, torch.diag_embed(2 * z.detach() * (2 + 1j)))
    same(batch_jacobian(z * z * (2 + 1j), wrt=z, batch="coupled"), made)


@pytest.mark.parametrize("what", ("conj", "abs", "real part times z"))
def test_a_function_that_is_not_holomorphic_is_refused(what: str) -> None:
    z = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(3)).requires_grad_()
    y = {"conj": z.conj() * 1, "abs": z.abs().to(z.dtype), "real part times z": z.real * z}[what]
    with pytest.raises(DerivativeError, match="not a holomorphic function"):
        batch_jacobian(y, wrt=z)


def test_a_real_output_of_a_complex_target_is_refused() -> None:
    z = torch.ones(4, 3, dtype=torch.complex64, requires_grad=True)
    with pytest.raises(UsageError, match="view_as_real"):
        batch_jacobian(z.abs(), wrt=z)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32), ids=str)
def test_the_result_has_the_dtype_of_wrt(dtype: torch.dtype) -> None:
    net, z = mlp().to(dtype), points(4, 3).detach().to(dtype).requires_grad_()
    y = net(z)
    made = batch_jacobian(y, wrt=z)
    assert made.dtype == dtype
    torch.testing.assert_close(
        made, one_hot_jacobian(y, z), rtol=8 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).eps
    )


def test_a_graph_made_under_autocast() -> None:
    net, z = mlp().float(), points(4, 3).detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = net(z)
        made = batch_jacobian(y, wrt=z)
    assert y.dtype == torch.bfloat16 and made.dtype == torch.float32
    torch.testing.assert_close(made, one_hot_jacobian(y, z), rtol=0.02, atol=0.02)


def test_tensors_without_values_are_refused() -> None:
    z = torch.ones(2, 3, device="meta", requires_grad=True)
    with pytest.raises(UsageError, match="meta, which"):
        batch_jacobian(z.sin(), wrt=z)


def test_sparse_tensors_are_refused() -> None:
    z = torch.eye(3).to_sparse().requires_grad_()
    with pytest.raises(UsageError, match="to_dense"):
        batch_jacobian(z.to_dense().sin(), wrt=z)


def test_an_option_that_there_is_not_is_refused() -> None:
    z = points(2, 3)
    for options in ({"mode": "backward"}, {"batch": "yes"}, {"chunk_size": 0}, {"max_bytes": -1}, {"max_bytes": True}):
        with pytest.raises(UsageError):
            batch_jacobian(z.sin(), wrt=z, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not go with"):
        batch_jacobian(z.sin(), wrt=z, batch="coupled", sparsity=torch.eye(3, dtype=torch.bool))


def test_a_wrong_sparsity_is_refused_and_a_right_one_serves() -> None:
    z = points(4, 9)
    y = z + z.roll(1, 1) ** 2
    right = (torch.eye(9) + torch.eye(9).roll(-1, 1)).bool()
    same(batch_jacobian(y, wrt=z, sparsity=right), one_hot_jacobian(y, z))
    with pytest.raises(DerivativeError, match="sparsity"):
        batch_jacobian(y, wrt=z, sparsity=torch.eye(9, dtype=torch.bool), batch="assume_independent")


def test_the_state_of_the_caller_stays_as_it_was() -> None:
    z = points(4, 3)
    net = nn.Sequential(mlp(), nn.BatchNorm1d(2).to(DOUBLE).eval())
    y = net(z)
    z.grad = torch.ones_like(z)
    random = torch.random.get_rng_state()
    for options in OPTIONS.values():
        batch_jacobian(y, wrt=z, **options)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert torch.equal(z.grad, torch.ones_like(z))
    assert all(parameter.grad is None for parameter in net.parameters())
    y.sum().backward()  # the graph is still there


@pytest.mark.parametrize("name", OPTIONS)
def test_a_jacobian_that_is_to_be_differentiated_is_so_under_no_grad(name: str) -> None:
    z = points(4, 3)
    y = mlp()(z)
    first = y[:, 0]
    with torch.no_grad():
        made = batch_jacobian(y, wrt=z, create_graph=True, **OPTIONS[name])
        gradient = batch_gradient(first, wrt=z, create_graph=True)
    truth = one_hot_jacobian(y, z, create_graph=True)
    for ours, theirs in ((made, truth), (gradient, truth[:, 0])):
        same(*(torch.autograd.grad(jacobian.pow(3).sum(), z, retain_graph=True)[0] for jacobian in (ours, theirs)))
