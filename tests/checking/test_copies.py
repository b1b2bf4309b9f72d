"""Copies keep values, strides and identities, and share no memory with what they copy."""

import pytest
import torch

from gradwright.checking.copies import Source, fresh_copy, is_plain, strided_copy


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4).t(),
        torch.randn(6, 8)[::2, 1::3],
        torch.randn(1, 4).expand(3, 4),
        torch.randn(3, 1, 2).expand(3, 5, 2),
        torch.empty(0, 3),
        torch.tensor(2.0),
        torch.arange(4),
    ],
)
def test_a_copy_keeps_values_and_strides(tensor):
    copied = strided_copy(tensor)
    assert torch.equal(copied, tensor)
    assert copied.stride() == tensor.stride()
    assert tensor.numel() == 0 or copied.data_ptr() != tensor.data_ptr()


def test_windows_that_overlap_are_copied_apart():
    windows = torch.arange(6.0).unfold(0, 3, 1)
    assert torch.equal(strided_copy(windows), windows)


def test_two_arguments_that_share_memory_are_two_inputs():
    x = torch.randn(3)
    one, two, part = fresh_copy([x, x, x[1:]]).args
    one.zero_()
    assert torch.equal(two, x)
    assert torch.equal(part, x[1:])


def test_a_parameter_and_the_module_that_holds_it_stay_one():
    module = torch.nn.Linear(2, 2)
    copied = fresh_copy([module, module.weight, module.bias.detach()], torch.float64)
    twin, weight, bias = copied.args
    assert twin is not module and twin.weight is weight and twin.bias is bias
    assert weight.dtype is torch.float64 and module.weight.dtype is torch.float32
    assert copied.tied == {1, 2}
    assert copied.hidden == ()


def test_what_may_hide_a_tensor_is_told():
    assert fresh_copy([torch.nn.Linear(2, 2), torch.ones(2)]).hidden == ("Linear",)
    assert fresh_copy([open, torch.relu, [1, "a"], {"k": 2.0}, torch.float32]).hidden == ()
    assert is_plain((1, "a", None, torch.Size([1]))) and not is_plain([torch.ones(1)])


def test_only_floating_tensors_are_widened():
    dtypes = [torch.float16, torch.float32, torch.float64, torch.int32, torch.bool, torch.complex64]
    args = fresh_copy([torch.ones(2).to(dtype) for dtype in dtypes], torch.float64).args
    assert [arg.dtype for arg in args] == [torch.float64] * 3 + [torch.int32, torch.bool, torch.complex128]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(3, 4).t(),
        torch.randn(6, 8)[::2, 1::3],
        torch.randn(1, 4).expand(3, 4),
        torch.nn.Parameter(torch.randn(3)),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.tensor(2.0),
    ],
)
def test_each_call_gets_a_copy_in_a_graph_that_shares_nothing_with_the_last_one(tensor):
    source = Source([tensor, 3], torch.float64)
    shift = torch.ones(tensor.numel() * (2 if tensor.is_complex() else 1), dtype=torch.float64)
    for added in (None, shift):
        args = source.fresh(without=[0])
        leaf, argument = source.in_graph(0, args[0], added, 0.5)
        one = (1 + 1j if tensor.is_complex() else 1) * (0.0 if added is None else 0.5)
        assert torch.allclose(argument.detach(), (tensor + one).to(argument.dtype).detach())
        assert argument.stride() == tensor.stride() or tensor.stride()[:1] == (0,)
        (gradient,) = torch.autograd.grad((argument * 2).abs().sum(), leaf)
        assert gradient.shape == tensor.shape
        with torch.no_grad():
            argument.detach().zero_()
    assert torch.equal(source.fresh()[0], source.args[0])
    assert torch.equal(source.args[0].detach(), tensor.detach().to(source.args[0].dtype))
