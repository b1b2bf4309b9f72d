"""Hand-made gradients, flows and taps on a device that stands in for an accelerator: its autocast, its generator."""

import threading

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device
from torch import Tensor, nn

import gradwright as gw
from gradwright.functions.flow.reversible import ReversibleBlock
from gradwright.ground.random_states import CPU, RandomState

DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def kinds() -> list[tuple[str, torch.device]]:
    return [("cpu", torch.device("cpu")), ("standin", stand_in_device.SECOND)]


@DTYPES
@on_stand_in_device
def test_the_backward_runs_under_the_autocast_of_its_forward(dtype: torch.dtype) -> None:
    seen = []

    def backward(cotangent: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        seen.append((x @ w).dtype)
        return (cotangent @ w.T).to(x.dtype), (x.T @ cotangent).to(w.dtype)

    product = gw.custom_gradient(lambda x, w: x @ w, backward)
    for kind, device in kinds():
        x, w = torch.randn(5, 4, device=device).requires_grad_(), torch.randn(4, 3, device=device).requires_grad_()
        with torch.autocast(kind, dtype=dtype):
            y = product(x, w)
        y.float().sum().backward()
        product(x, w).sum().backward()
        assert y.dtype is dtype
        assert x.grad is not None and (x.grad.dtype, x.grad.device) == (torch.float32, device)
    assert seen == [dtype, torch.float32] * 2


@DTYPES
@on_stand_in_device
def test_autocast_that_was_off_in_the_forward_is_off_in_the_backward_of_every_kind(dtype: torch.dtype) -> None:
    elsewhere = [torch.ones(2, 2, device=device) for _, device in kinds()]  # no arguments of the function
    seen = []

    def backward(cotangent: Tensor) -> Tensor:
        seen.extend((one @ one).dtype for one in elsewhere)
        return 2 * cotangent

    y = gw.custom_gradient(lambda x: 2 * x, backward)(torch.ones(2, 2, requires_grad=True))
    with torch.autocast("cpu", dtype=dtype), torch.autocast("standin", dtype=dtype):
        y.sum().backward()
    assert seen == [torch.float32] * 2


@on_stand_in_device
def test_a_function_of_tensors_on_two_devices_gives_each_its_gradient_where_it_is() -> None:
    one, two = (torch.ones(3, device=d).requires_grad_() for d in (stand_in_device.FIRST, stand_in_device.SECOND))
    added = gw.custom_gradient(lambda x, y: x + y.to(x.device), lambda c, x, y: (c, c.to(y.device)))
    added(one, two).sum().backward()
    assert one.grad is not None and two.grad is not None
    assert [one.grad.device, two.grad.device] == [stand_in_device.FIRST, stand_in_device.SECOND]
    left = gw.custom_gradient(lambda x, y: x + y.to(x.device), lambda c, x, y: (c, c))
    with pytest.raises(RuntimeError, match="index 1 - expected device standin:1 but got standin:0"):
        left(one, two).sum().backward()


class Noisy(nn.Module):
    """Draws on the device of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand_like(x)


@on_stand_in_device
def test_a_reversible_network_draws_on_the_way_back_what_it_drew_on_the_way_there() -> None:
    device = stand_in_device.SECOND
    x1, x2 = (torch.randn(4, 3, device=device).requires_grad_() for _ in range(2))
    began = RandomState.now((CPU, device))
    sum(ReversibleBlock(Noisy())(x1, x2)).sum().backward()
    ended = RandomState.now((CPU, device))
    began.restore()
    drawn = torch.rand_like(x2)
    assert x2.grad is not None
    torch.testing.assert_close(x2.grad, 1 + drawn)
    assert RandomState.now((CPU, device)).equals(ended)


@on_stand_in_device
def test_a_simulation_draws_in_its_second_sweep_what_it_drew_in_the_first() -> None:
    device = stand_in_device.SECOND
    began = RandomState.now((CPU, device))

    def step(x: Tensor, rate: Tensor) -> Tensor:
        return x + rate * torch.rand_like(x)

    def gradient(memory: int | None) -> Tensor:
        began.restore()
        rate = torch.tensor(0.5, dtype=torch.float64).to(device).requires_grad_()
        end = gw.integrate(step, torch.ones(3, device=device, dtype=torch.float64), rate, steps=12, memory=memory)
        end.square().sum().backward()
        assert rate.grad is not None
        return rate.grad

    torch.testing.assert_close(gradient(2), gradient(12))


@on_stand_in_device
def test_a_checkpoint_draws_again_what_its_forward_drew() -> None:
    x = torch.randn(4, 3, device=stand_in_device.SECOND, requires_grad=True)
    y = gw.checkpoint(Noisy(), x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, y)


@DTYPES
@on_stand_in_device
def test_taps_wait_for_no_device_until_they_are_read(dtype: torch.dtype) -> None:
    for kind, device in kinds():
        x, w = torch.randn(5, 4, device=device).requires_grad_(), torch.randn(4, 3, device=device)
        with counted_waits() as all_waits, gw.taps() as session:
            with counted_waits() as waits, torch.autocast(kind, dtype=dtype):
                (gw.tap("product", x @ w).float() ** 2).sum().backward()
            assert waits == []
        assert ("f16" if dtype is torch.float16 else "bf16") + "[5,3]" in str(session)
        assert all_waits == ([] if kind == "cpu" else ["synchronize", "_to_copy"])


@on_stand_in_device
def test_a_tap_in_the_capture_of_a_cuda_graph_says_that_it_saw_nothing() -> None:
    x = torch.randn(3, device=stand_in_device.SECOND, requires_grad=True)
    stand_in_device.begin_a_capture()
    with gw.taps() as session, counted_waits() as waits:
        gw.tap("x", x).sum().backward()
    assert waits == [] and "inside the capture of a CUDA graph" in str(session)


@on_stand_in_device
def test_a_tap_measures_in_the_stream_of_the_thread_that_taps() -> None:
    x = torch.randn(3, device=stand_in_device.SECOND, requires_grad=True)
    with gw.taps():
        gw.tap("x", x).sum().backward()
    assert {threading.get_ident()} == stand_in_device.THREADS
