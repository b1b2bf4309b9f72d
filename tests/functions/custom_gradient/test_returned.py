"""What a backward returns is checked before the engine repairs it."""

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def _product(backward):
    return custom_gradient(lambda x, w: x * w, backward)


def _plainly(f, *inputs):
    return f(*inputs)


def _by_keyword(f, x, w):
    return f(x=x, w=w)


@pytest.mark.parametrize("call", [_plainly, _by_keyword], ids=["plainly", "by keyword"])
@pytest.mark.parametrize(
    ("backward", "told"),
    [
        (lambda g, x, w: (g * w, g * x), "return grad_w.sum_to_size(w.shape)"),
        (lambda g, x, w: (g * w, (g * x).sum()), "return grad_w.expand(w.shape)"),
        (lambda g, x, w: (g * w, (g * x)[:2, :2]), "see how the forward uses w"),
        (lambda g, x, w: ((g * w).float(), (g * x).sum(0)), "return grad_x.to(x.dtype)"),
        (lambda g, x, w: ((g * w).to(torch.complex128), (g * x).sum(0)), "return grad_x.real"),
        (lambda g, x, w: (g * w,), "returned 1 gradient for 2 inputs"),
        (lambda g, x, w: g * w, "returned 1 gradient for 2 inputs"),
        (lambda g, x, w: (g * w, g, g), "returned 3 gradients for 2 inputs"),
        (lambda g, x, w: {"x": g * w}, "returned no gradient of w"),
        (lambda g, x, w: {"x": g * w, "v": g}, "a gradient of 'v', which is no input"),
        (lambda g, x, w: (g * w, 1.0), "returned float as the gradient of w"),
        (lambda g, x, w: ((g * w).numpy(), None), "returned ndarray as the gradient of x"),
    ],
    ids=[
        *("broadcast", "summed", "shape", "dtype", "complex", "one", "one alone", "three"),
        *("missing name", "unknown name", "no tensor", "array"),
    ],
)
def test_a_gradient_that_does_not_fit_is_told(backward, told, call):
    x, w = _leaf(4, 3), _leaf(3)
    with pytest.raises(UsageError) as caught:
        call(_product(backward), x, w).sum().backward()
    assert told in str(caught.value)
    assert "test_returned.py" in str(caught.value)


def test_under_vmap_shapes_are_those_of_one_example():
    f = _product(lambda g, x, w: (g * w, (g * x).sum()))
    x, w = torch.randn(4, 3), torch.randn(3)
    with pytest.raises(UsageError, match=r"returned float32\[\] as the gradient of w, which is float32\[3\]"):
        torch.func.grad(lambda w: torch.func.vmap(f, in_dims=(0, None))(x, w).sum())(w)


def test_an_integer_input_has_no_gradient():
    pick = custom_gradient(lambda x, index: x[index], lambda g, x, index: (torch.zeros_like(x), index * 1.0))
    with pytest.raises(UsageError, match="integers and bools have no gradient"):
        pick(_leaf(3), torch.tensor([0, 1])).sum().backward()


def test_a_tree_comes_back_in_its_structure():
    f = custom_gradient(lambda d: d["a"] * d["b"], lambda g, d: {"d": [g * d["b"], g * d["a"]]})
    with pytest.raises(UsageError, match="another structure than d"):
        f({"a": _leaf(2), "b": _leaf(2)}).sum().backward()


def test_a_forward_without_a_tensor_is_told():
    with pytest.raises(UsageError, match="returned float, which holds no tensor"):
        custom_gradient(lambda x: 1.0, lambda g: g)(_leaf(2))


def test_residuals_in_the_wrong_place_are_told():
    from gradwright.functions.custom_gradient import residuals

    with pytest.raises(UsageError, match="put them last"):
        custom_gradient(lambda x: (residuals(mask=x > 0), x), lambda g, mask: g)(_leaf(2))


@pytest.mark.parametrize("call", [lambda f, x: f(x), lambda f, x: f(x=x)], ids=["plainly", "by keyword"])
def test_a_forward_that_writes_on_its_input_is_told(call):
    def doubled(x):
        x.mul_(2)
        return x.clone()

    f = custom_gradient(doubled, lambda g: 2 * g)
    with pytest.raises(UsageError, match="changes its input x in place"):
        call(f, _leaf(3) * 1)
    with pytest.raises(UsageError, match="changes its input x in place"):
        torch.func.grad(lambda x: call(f, x * 1).sum())(torch.randn(3))


def test_a_forward_may_write_on_what_needs_no_gradient():
    def counted(x, seen):
        seen.add_(1)
        return x * 2

    f = custom_gradient(counted, lambda g: (2 * g, None))
    seen = torch.zeros(())
    f(_leaf(3), seen).sum().backward()
    assert seen.item() == 1.0


@pytest.mark.parametrize("forward", [lambda x: x, lambda x: x.t(), lambda x: x[0]], ids=["itself", "transposed", "row"])
def test_an_output_that_is_a_view_has_its_gradient_and_is_not_written_on(forward):
    def back(g, x):
        return torch.autograd.functional.vjp(forward, x, g)[1] * -1

    f, x = custom_gradient(forward, back), _leaf(3, 3)
    known = torch.autograd.grad(forward(x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x)[0], -known)
    torch.testing.assert_close(torch.autograd.grad(f(x=x).sum(), x)[0], -known)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        f(x * 1).add_(1)


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("call", [_plainly, _by_keyword], ids=["plainly", "by keyword"])
def test_under_autocast_the_backward_runs_as_its_forward_did(place, call):
    matmul = custom_gradient(lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x.T @ g))
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)

    def gradients(f):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = f(x, w)
            assert y.dtype is torch.bfloat16
            if place == "inside":
                return torch.autograd.grad(y.float().sum(), (x, w))
        return torch.autograd.grad(y.float().sum(), (x, w))

    found = gradients(lambda x, w: call(matmul, x, w))
    assert [gradient.dtype for gradient in found] == [torch.float32] * 2
    torch.testing.assert_close(found, gradients(torch.matmul), rtol=0, atol=0)


def test_a_backward_under_autocast_runs_as_its_forward_did_without():
    matmul = custom_gradient(lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x.T @ g))
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    y = matmul(x, w).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = torch.autograd.grad(y, x)
    torch.testing.assert_close(found, torch.ones(4, 4) @ w.T, rtol=0, atol=0)
