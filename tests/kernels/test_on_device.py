"""An elementwise function on a device that stands in for an accelerator that there are no kernels for, and on two."""

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import counted_waits, on_stand_in_device

import gradwright as gw
from gradwright.errors import UsageError

FORMULA = "x*exp(-x) + y"


@on_stand_in_device
def test_value_and_gradients_are_made_where_the_inputs_are_and_nobody_waits() -> None:
    f = gw.elementwise(FORMULA)
    x, y = torch.randn(5, 4), torch.randn(4)
    known = torch.autograd.grad(f(x.requires_grad_(), y.requires_grad_()).square().sum(), (x, y))
    there = [tensor.detach().to(stand_in_device.SECOND).requires_grad_() for tensor in (x, y)]
    with counted_waits() as waits:
        made = torch.autograd.grad(f(*there).square().sum(), there)
    assert waits == [] and {one.device for one in made} == {stand_in_device.SECOND}
    torch.testing.assert_close([one.cpu() for one in made], [*known])
    assert f.plan(*there).is_fallback and "standin" in f.plan(*there).why


@on_stand_in_device
def test_inputs_on_two_devices_are_refused_by_name_and_a_number_on_the_cpu_goes_with_any() -> None:
    f = gw.elementwise(FORMULA)
    x = torch.randn(5, 4, device=stand_in_device.SECOND)
    for elsewhere in (torch.ones(4, device=stand_in_device.FIRST), torch.ones(4)):
        with pytest.raises(UsageError, match=f"x is on standin:1, y on {elsewhere.device}"):
            f(x, elsewhere)
    assert f(x, 2.0).device == stand_in_device.SECOND


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@on_stand_in_device
def test_under_autocast_dtypes_are_those_of_the_inputs_on_every_kind_of_device(dtype: torch.dtype) -> None:
    f = gw.elementwise(FORMULA)
    for kind, device in (("cpu", torch.device("cpu")), ("standin", stand_in_device.SECOND)):
        x = torch.randn(4, 4, device=device, requires_grad=True)
        with torch.autocast(kind, dtype=dtype):
            low, wide = f(x @ x, x @ x), f(x, x)
        assert (low.dtype, wide.dtype) == (dtype, torch.float32)
        (gradient,) = torch.autograd.grad(low.float().sum() + wide.sum(), x)
        assert (gradient.dtype, gradient.device) == (torch.float32, device) and gradient.isfinite().all()
