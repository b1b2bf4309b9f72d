"""Traps that quick ways fall into: right against one-hot truth, or a clear error; and nothing is left changed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import pytest
import torch
from tests.derivatives.functions import Cube, Normalised
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

import gradwright as gw
from gradwright.derivatives.graph.engine import hooks_heard, pull
from gradwright.derivatives.graph.target import read_target
from gradwright.errors import CoupledBatch, UsageError

DOUBLE = torch.float64


def _latent(rows: int = 6, columns: int = 3) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(3), dtype=DOUBLE).requires_grad_()


def _gated(z: Tensor, gate: Tensor) -> Tensor:
    return torch.tanh(z) + gate * z.mean(0)


def test_a_gate_that_opens_later_is_found_when_it_is_open() -> None:
    z, gate = _latent(), torch.zeros((), dtype=DOUBLE, requires_grad=True)
    torch.testing.assert_close(gw.batch_jacobian(_gated(z, gate), z), one_hot_jacobian(_gated(z, gate), z))
    with torch.no_grad():
        gate.add_(0.1)
    with pytest.raises(CoupledBatch, match="MeanBackward1"):
        gw.batch_jacobian(_gated(z, gate), z)


def test_a_gate_that_is_zero_now_is_found_where_its_gradient_will_be_taken() -> None:
    z, gate = _latent(), torch.zeros((), dtype=DOUBLE, requires_grad=True)
    with pytest.raises(CoupledBatch, match="derivatives of their Jacobians meet"):
        gw.batch_jacobian(_gated(z, gate), z, create_graph=True)
    exact = gw.batch_jacobian(_gated(z, gate), z, create_graph=True, batch="coupled")
    truth = one_hot_jacobian(_gated(z, gate), z, create_graph=True)
    made, right = (torch.autograd.grad(jacobian.square().sum(), gate)[0] for jacobian in (exact, truth))
    torch.testing.assert_close(made, right)


def test_a_backward_that_normalises_its_cotangent_is_found() -> None:
    z = _latent()
    with pytest.raises(CoupledBatch, match="NormalisedBackward"):
        gw.batch_jacobian(Normalised.apply(z.tanh()) * 2, z)


def _register_on_tensor(h: Tensor) -> None:
    h.register_hook(lambda cotangent: cotangent / cotangent.norm())


def _register_on_node(h: Tensor) -> None:
    assert h.grad_fn is not None
    h.grad_fn.register_hook(lambda made, arrived: tuple(one if one is None else one / one.norm() for one in made))


def _register_before_node(h: Tensor) -> None:
    assert h.grad_fn is not None
    h.grad_fn.register_prehook(lambda arrived: tuple(one / one.norm() for one in arrived))


def _register_a_c_function(h: Tensor) -> None:
    h.register_hook(functools.partial(torch.cumsum, dim=0))


HOOKS = [_register_on_tensor, _register_on_node, _register_before_node, _register_a_c_function]


@pytest.mark.parametrize("register", HOOKS, ids=lambda register: register.__name__.strip("_"))
def test_a_hook_that_lets_samples_meet_is_found(register: Callable[[Tensor], None]) -> None:
    z = _latent()
    h = z.tanh()
    register(h)
    y = h * 2
    with pytest.raises(CoupledBatch, match="hook"):
        gw.batch_jacobian(y, z)
    assert gw.check_batch_independence(y, z).verdict == "coupled"
    torch.testing.assert_close(gw.batch_jacobian(y, z, batch="coupled"), one_hot_jacobian(y, z))


@pytest.mark.parametrize("mode", ["auto", "reverse"])
def test_a_hook_of_each_sample_is_no_coupling(mode: str) -> None:
    z = _latent()
    h = z.tanh()
    h.register_hook(lambda cotangent: cotangent.clamp(-0.5, 0.5))
    y = h * 2
    torch.testing.assert_close(gw.batch_jacobian(y, z, mode=mode), one_hot_jacobian(y, z))  # type: ignore[arg-type]
    assert gw.check_batch_independence(y, z).verdict == "held"


def test_a_hook_that_was_removed_is_forgotten() -> None:
    z = _latent()
    h = z.tanh()
    h.register_hook(lambda cotangent: cotangent / cotangent.norm()).remove()
    assert gw.check_batch_independence(h * 2, z).verdict == "proved"


def test_nobody_listens_while_a_profiler_runs_and_the_probe_answers() -> None:
    z = _latent()
    h = z.tanh()
    h.register_hook(lambda cotangent: cotangent / cotangent.norm())
    target, y = read_target(z), h * 2

    def profiler(frame: object, event: str, argument: object) -> None:
        return None

    sys.setprofile(profiler)
    try:
        with hooks_heard() as heard:
            pull(y, target, torch.ones_like(y))
        with pytest.raises(CoupledBatch):
            gw.batch_jacobian(y, z)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert heard.unknown


def test_listening_leaves_no_profile_function_behind() -> None:
    z = _latent()
    h = z.tanh()

    def broken(cotangent: Tensor) -> Tensor:
        raise ValueError("planted")

    h.register_hook(broken)
    with pytest.raises(ValueError, match="planted"):
        gw.batch_jacobian(h * 2, z)
    assert sys.getprofile() is None


def test_saved_tensors_that_are_unpacked_by_hooks_stay_right() -> None:
    z = _latent()
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.numpy(force=True), torch.from_numpy):
        y = (z.tanh() * z).exp()
    torch.testing.assert_close(gw.batch_jacobian(y, z), one_hot_jacobian(y, z))


def test_rows_shared_by_expand_are_told_apart_from_rows_of_their_own() -> None:
    shared = torch.randn(1, 3, dtype=DOUBLE, requires_grad=True)
    with pytest.raises(UsageError, match="its one row is shared by all samples"):
        gw.batch_jacobian(shared * _latent().detach(), shared)
    expanded = shared.expand(6, 3)
    y = (expanded * _latent().detach()).tanh()
    torch.testing.assert_close(gw.batch_jacobian(y, expanded), one_hot_jacobian(y, expanded))


def test_masks_are_those_of_this_call() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    for scale in (1.0, -1.0, 3.0):
        z = (_latent().detach() * scale).requires_grad_()
        y = net(z)
        torch.testing.assert_close(gw.batch_jacobian(y, z), one_hot_jacobian(y, z))


@pytest.mark.parametrize("unproved", [False, True])
def test_zero_times_infinity_is_what_one_hot_rows_say(unproved: bool) -> None:
    z = torch.tensor([[0.0, 4.0], [9.0, 1.0], [1.0, 0.0]], dtype=DOUBLE, requires_grad=True)
    y = z.sqrt()
    if unproved:
        y.register_hook(lambda cotangent: cotangent * 1)
        y = y * 1
    torch.testing.assert_close(gw.batch_jacobian(y, z, mode="reverse"), one_hot_jacobian(y, z), equal_nan=True)


def test_a_sample_without_finite_derivatives_hides_no_coupling_of_the_others() -> None:
    z = torch.tensor([[0.0], [4.0], [9.0]], dtype=DOUBLE, requires_grad=True)
    with pytest.raises(CoupledBatch):
        gw.batch_jacobian(z.sqrt() + 0.1 * z.roll(1, 0) * z, z)
    assert gw.check_batch_independence(z.sqrt() + 0.1 * z.roll(1, 0) * z, z).verdict == "coupled"


def test_dropout_is_not_drawn_again() -> None:
    z = _latent(6, 8)
    y = nn.functional.dropout(z * 2, 0.5)
    state = torch.get_rng_state()
    jacobian = gw.batch_jacobian(y, z)
    kept = (y != 0).to(DOUBLE) * 4
    torch.testing.assert_close(torch.diagonal(jacobian, dim1=1, dim2=2), kept)
    assert torch.equal(torch.get_rng_state(), state)


def test_running_statistics_stay_as_they_are() -> None:
    norm = nn.BatchNorm1d(3).double()
    z = _latent()
    y = norm(z)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    gw.batch_jacobian(y, z, batch="coupled")
    with pytest.raises(CoupledBatch):
        gw.batch_jacobian(y, z)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


@pytest.mark.parametrize("coupling", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("kind", ["mean", "one pair", "first for all", "neighbour"])
def test_small_couplings_are_found_in_double_precision(kind: str, coupling: float) -> None:
    z = _latent()
    pair = torch.zeros(6, 6, dtype=DOUBLE)
    pair[4, 2] = 1
    mixed = {"mean": z.mean(0), "one pair": pair @ z, "first for all": z[:1], "neighbour": z.roll(1, 0)}[kind]
    y = z.tanh() + coupling * mixed
    with pytest.raises(CoupledBatch):
        gw.batch_jacobian(y, z)
    found = gw.check_batch_independence(y, z)
    assert found.verdict == "coupled"
    assert kind != "one pair" or (found.giver, found.receiver) == (4, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_exact_look_finds_a_coupling_below_rounding(dtype: torch.dtype) -> None:
    z = _latent().detach().to(dtype).requires_grad_()
    y = z.tanh() + 1e-4 * z.roll(1, 0)
    assert gw.check_batch_independence(y, z).verdict == "coupled"


def test_a_huge_sample_hides_no_other() -> None:
    z = _latent().detach()
    z[0] *= 1e8
    z.requires_grad_()
    with pytest.raises(CoupledBatch):
        gw.batch_jacobian(z.square() + 1e-3 * z.roll(1, 0), z)
    assert gw.check_batch_independence(z.square(), z).verdict == "proved"


def test_a_jacobian_that_is_zero_is_not_a_coupling() -> None:
    z = _latent()
    y = Cube.apply(z) * 0.0
    torch.testing.assert_close(gw.batch_jacobian(y, z), torch.zeros(6, 3, 3, dtype=DOUBLE))
    assert gw.check_batch_independence(y, z).verdict == "held"


def test_the_graph_and_grad_stay_as_they_are() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    z = _latent()
    y = net(z)
    first = gw.batch_jacobian(y, z)
    torch.testing.assert_close(gw.batch_jacobian(y, z), first)
    gw.batch_jacobian(y, z, create_graph=True)
    assert z.grad is None
    assert all(parameter.grad is None for parameter in net.parameters())
    y.sum().backward()
    assert z.grad is not None
