"""The whole room on each device that is here: the same laws, the same figures, and what only an accelerator has."""

from __future__ import annotations

import pytest
import torch
from tests import stand_in_device
from tests.derivatives.truth import one_hot_jacobian
from tests.devices import CUDA, only_on_cuda
from tests.stand_in_device import counted_waits, on_stand_in_device
from torch import Tensor, nn

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.ground.memory import memory_of

on_each_device = pytest.mark.parametrize("device", ["cpu", CUDA])
on_cuda = pytest.mark.parametrize("device", [CUDA])


def tail(device: str, *, outputs: int = 3) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, outputs))
    return net.to(device, torch.float64), torch.randn(6, 4, device=device, dtype=torch.float64, requires_grad=True)


@on_each_device
@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_the_batch_jacobian_is_the_one_hot_truth(device: str, mode: str) -> None:
    net, z = tail(device)
    y = net(z)
    torch.testing.assert_close(gw.batch_jacobian(y, wrt=z, mode=mode), one_hot_jacobian(y, z))  # type: ignore[arg-type]


@on_each_device
def test_a_penalty_trains_through_it(device: str) -> None:
    net, z = tail(device)
    y = net(z)
    weights = [*net.parameters()][:2]
    penalty = gw.batch_jacobian(y, wrt=z, create_graph=True).square().sum()
    ours = torch.autograd.grad(penalty, weights, retain_graph=True)
    truth = torch.autograd.grad(one_hot_jacobian(y, z, create_graph=True).square().sum(), weights)
    torch.testing.assert_close(ours, truth)


@on_each_device
def test_a_coupled_batch_is_told_and_exact_when_asked(device: str) -> None:
    _, z = tail(device)
    y = nn.BatchNorm1d(4, device=device, dtype=torch.float64)(z)
    with pytest.raises(gw.CoupledBatch, match="BatchNorm"):
        gw.batch_jacobian(y, wrt=z)
    torch.testing.assert_close(gw.batch_jacobian(y, wrt=z, batch="coupled"), one_hot_jacobian(y, z))


@on_each_device
def test_a_hook_that_couples_is_heard(device: str) -> None:
    net, z = tail(device)
    hidden = net[0](z)
    hidden.register_hook(lambda cotangent: cotangent / cotangent.norm())
    with pytest.raises(gw.CoupledBatch):
        gw.batch_jacobian(net[1:](hidden), wrt=z)


@on_each_device
def test_per_sample_gradients_sum_to_the_plain_one(device: str) -> None:
    net, z = tail(device, outputs=1)
    losses = net(z)[:, 0].square()
    made = gw.per_sample_gradients(losses, net)
    for name, parameter in net.named_parameters():
        (plain,) = torch.autograd.grad(losses.sum(), parameter, retain_graph=True)
        torch.testing.assert_close(made[name].sum(0), plain)


@on_each_device
def test_the_laplacian_is_the_trace_of_the_hessian(device: str) -> None:
    net, z = tail(device, outputs=1)
    u = net(z)[:, 0]
    trace = gw.batch_hessian(u, wrt=z).diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(gw.laplacian(u, wrt=z), trace)


@on_each_device
def test_max_bytes_holds_within_a_tenth(device: str) -> None:
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)).to(device)
    z = torch.randn(256, 64, device=device, requires_grad=True)
    y = net(z)
    most = 3 * 256 * 64 * 64 * 4
    gw.batch_jacobian(y, wrt=z, mode="reverse")  # the first product of each thread takes a workspace of cuBLAS's
    taken = memory_of(lambda: gw.batch_jacobian(y, wrt=z, mode="reverse", max_bytes=most), z.device)
    assert taken.peak_bytes <= 1.1 * most


@on_stand_in_device
def test_on_a_second_device_that_stands_in_for_an_accelerator_all_of_it_holds() -> None:
    device = str(stand_in_device.SECOND)
    for mode in ("auto", "reverse", "forward"):
        test_the_batch_jacobian_is_the_one_hot_truth(device, mode)
    for holds in (
        test_a_penalty_trains_through_it,
        test_a_coupled_batch_is_told_and_exact_when_asked,
        test_a_hook_that_couples_is_heard,
        test_per_sample_gradients_sum_to_the_plain_one,
        test_the_laplacian_is_the_trace_of_the_hessian,
    ):
        holds(device)


@on_stand_in_device
def test_how_often_a_batch_of_jacobians_waits_hangs_on_neither_samples_nor_outputs() -> None:
    waited = []
    for samples, outputs in ((6, 3), (40, 9)):
        net, _ = tail(str(stand_in_device.SECOND), outputs=outputs)
        z = torch.randn(samples, 4, device=stand_in_device.SECOND, dtype=torch.float64, requires_grad=True)
        y = net(z)
        with counted_waits() as waits:
            made = [gw.batch_jacobian(y, wrt=z), gw.batch_hessian(y[:, 0], wrt=z), gw.laplacian(y[:, 0], wrt=z)]
        assert {one.device for one in made} == {stand_in_device.SECOND}
        waited.append(waits)
    assert waited[0] == waited[1] and len(waited[0]) <= 2 * len(made)  # the largest difference, and where it is


@on_stand_in_device
def test_the_jacobian_of_an_output_on_another_device_lies_where_the_input_does() -> None:
    net, _ = tail(str(stand_in_device.SECOND))
    z = torch.randn(6, 4, device=stand_in_device.FIRST, dtype=torch.float64, requires_grad=True)
    y = net(z.to(stand_in_device.SECOND))
    for mode in ("auto", "reverse", "forward"):
        torch.testing.assert_close(gw.batch_jacobian(y, wrt=z, mode=mode), one_hot_jacobian(y, z))  # type: ignore[arg-type]


@on_stand_in_device
def test_a_plan_says_that_nothing_was_measured_on_such_a_device() -> None:
    net, z = tail(str(stand_in_device.SECOND))
    made = gw.plan(net(z), wrt=z)
    assert made.choice and "not measured on this device (standin)" in made.unmeasured
    assert f"predicted times: {made.unmeasured}" in str(made)


@on_stand_in_device
def test_memory_on_a_device_that_tells_none_is_refused_in_words() -> None:
    net, z = tail(str(stand_in_device.SECOND))
    with pytest.raises(UsageError, match="memory of standin is not measured"):
        memory_of(lambda: net(z), z.device)


@only_on_cuda
@on_cuda
def test_a_cudnn_recurrent_layer_is_named_before_anything_is_computed(device: str) -> None:
    layer = nn.LSTM(4, 5, batch_first=True, device=device)
    z = torch.randn(3, 7, 4, device=device, requires_grad=True)
    y = layer(z)[0][:, -1]
    with pytest.raises(gw.NoSecondDerivative, match="CudnnRnn"):
        gw.batch_jacobian(y, wrt=z, create_graph=True)
    assert gw.batch_jacobian(y, wrt=z).isfinite().all()


@on_cuda
def test_flash_attention_is_named_before_anything_is_computed(device: str) -> None:
    z = torch.randn(2, 4, 16, 32, device=device, dtype=torch.float16, requires_grad=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        y = torch.nn.functional.scaled_dot_product_attention(z, z, z)
    with pytest.raises(gw.NoSecondDerivative, match="Attention"):
        gw.batch_jacobian(y[:, 0, 0, :2], wrt=z, create_graph=True)
