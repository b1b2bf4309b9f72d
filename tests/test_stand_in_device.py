"""The device that stands in for an accelerator is one to torch: values, autograd, generators, autocast, what waits."""

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device


@on_stand_in_device
def test_values_and_gradients_are_those_of_the_cpu_on_both_devices() -> None:
    for device in (stand_in_device.FIRST, stand_in_device.SECOND):
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.GELU())
        x = torch.randn(6, 4)
        known = torch.autograd.grad(net(x).square().mean(), [*net.parameters()])
        net.to(device)
        made = torch.autograd.grad(net(x.to(device)).square().mean(), [*net.parameters()])
        assert {gradient.device for gradient in made} == {device}
        torch.testing.assert_close([gradient.cpu() for gradient in made], [*known])


@on_stand_in_device
def test_a_view_is_written_through_and_a_tensor_is_a_plain_one() -> None:
    x = torch.zeros(3, 4, device=stand_in_device.SECOND)
    x[1:, ::2].add_(1)
    assert x.sum().item() == 4 and type(x) is torch.Tensor
    assert x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@on_stand_in_device
def test_two_devices_do_not_mix_but_a_number_on_the_cpu_goes_with_any() -> None:
    one, two = torch.ones(2, device=stand_in_device.FIRST), torch.ones(2, device=stand_in_device.SECOND)
    for other in (two, torch.ones(2)):
        with pytest.raises(RuntimeError, match="at least two devices"):
            one + other
    assert (one + torch.ones(())).device == stand_in_device.FIRST


@on_stand_in_device
def test_what_the_host_would_wait_for_is_counted() -> None:
    with counted_waits() as waits:
        x = torch.randn(3, 4, device=stand_in_device.SECOND, requires_grad=True)
        (x.exp() @ x.t()).sum().backward()
        x.to("cpu", non_blocking=True)
    assert waits == []
    with counted_waits() as waits:
        torch.accelerator.synchronize()
        assert x.cpu().sum().isfinite() and bool(x.sum() > -99) and x[x > 9].numel() == 0
    assert waits == ["synchronize", "_to_copy", "_local_scalar_dense", "nonzero"]


@on_stand_in_device
def test_each_device_has_a_generator_of_its_own() -> None:
    before = torch.get_rng_state(), torch.get_device_module("standin").get_rng_state(0)
    torch.rand(3, device=stand_in_device.SECOND)
    after = torch.get_rng_state(), torch.get_device_module("standin").get_rng_state(0)
    assert all(map(torch.equal, before, after))


@on_stand_in_device
def test_autocast_is_its_own() -> None:
    x = torch.ones(2, 2, device=stand_in_device.FIRST)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("standin", dtype=dtype):
            assert (x @ x).dtype is dtype and (x.cpu() @ x.cpu()).dtype is torch.float32
        with torch.autocast("cpu", dtype=dtype):
            assert (x @ x).dtype is torch.float32


def test_a_failure_in_the_fork_is_the_tests_own() -> None:
    @on_stand_in_device
    def fails() -> None:
        raise KeyError("no such thing")

    with pytest.raises(AssertionError, match="no such thing"):
        fails()
    with pytest.raises(RuntimeError):
        torch.empty(1, device="standin")  # nothing is registered here
