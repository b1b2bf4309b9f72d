"""Second derivatives are right, or refused; never silently zero."""

import pytest
import torch
from torch.func import hessian, jacrev

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals

# torch's own decompositions still script, when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def _leaf() -> torch.Tensor:
    return torch.randn(3, dtype=torch.float64, requires_grad=True)


def _twice(f, x):
    """The second derivative of a sum, beside something else that x has a gradient by."""
    (gradient,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    return torch.autograd.grad((gradient + 0 * x).sum(), x)[0]


def _square_with(backward):
    return custom_gradient(lambda x: x**2, backward)


def _sine(x):
    return x.sin(), residuals(slope=x.cos())


@pytest.mark.parametrize("how", ["plainly", "by keyword", "in a tree"])
def test_through_saved_inputs_and_the_output(how):
    exp = custom_gradient(lambda x: x.exp(), lambda g, output: g * output)
    tree = custom_gradient(lambda d: {"y": d["x"].exp()}, lambda g, output: {"d": {"x": g["y"] * output["y"]}})
    calls = {"plainly": exp, "by keyword": lambda x: exp(x=x), "in a tree": lambda x: tree({"x": x})["y"]}
    x = _leaf()
    torch.testing.assert_close(_twice(calls[how], x), x.detach().exp())


def test_through_a_residual_by_running_the_forward_again():
    f = custom_gradient(_sine, lambda g, x, slope: g * slope)
    x = _leaf()
    torch.testing.assert_close(_twice(f, x), -x.detach().sin())
    assert torch.autograd.gradgradcheck(f, x)
    torch.testing.assert_close(jacrev(jacrev(lambda x: f(x).sum()))(x.detach()), -torch.diag(x.detach().sin()))


def test_a_third_derivative_through_a_residual():
    f, x = custom_gradient(_sine, lambda g, x, slope: g * slope), _leaf()
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(second.sum(), x)[0], -x.detach().cos())


def test_through_a_residual_whose_inputs_were_not_saved_is_refused():
    f = custom_gradient(_sine, lambda g, slope: g * slope)
    x = _leaf()
    with pytest.raises(UsageError, match="x was not saved to compute it again"):
        _twice(f, x)
    with pytest.raises(UsageError, match="goes through its residual slope"):
        jacrev(jacrev(lambda x: f(x).sum()))(x.detach())


def test_the_derivative_by_the_cotangent_needs_no_residual_again():
    f = custom_gradient(_sine, lambda g, slope: g * slope)
    x, g = _leaf(), _leaf()
    (gradient,) = torch.autograd.grad(f(x), x, g, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(gradient.sum(), g)[0], x.detach().cos())


def test_a_random_residual_is_refused():
    def dropout(x):
        noise = torch.rand_like(x)
        return x * noise, residuals(noise=noise)

    f = custom_gradient(dropout, lambda g, x, noise: g * noise)
    with pytest.raises(UsageError, match="came to another residual"):
        _twice(f, _leaf())


def test_a_residual_of_a_forward_that_autograd_does_not_see_is_refused():
    def through_numpy(x):
        slope = torch.from_numpy(2 * x.numpy())
        return torch.from_numpy(x.numpy() ** 2), residuals(slope=slope)

    with pytest.raises(UsageError, match="goes through its residual slope"):
        _twice(custom_gradient(through_numpy, lambda g, x, slope: g * slope), _leaf())


def test_a_mask_is_no_loss():
    def relu(x):
        return x.relu(), residuals(mask=x > 0, index=x.argsort())

    f = custom_gradient(relu, lambda g, mask, index: g * mask)
    assert not _twice(f, _leaf()).any()
    assert not hessian(lambda x: f(x).sum())(_leaf().detach()).any()


def _under_no_grad(g, x):
    with torch.no_grad():
        return 2 * x * g


def _written_into(g, x):
    out = torch.zeros_like(x)
    out[:] = 2 * x.detach() * g
    return out


LEAVING = {
    "detach": lambda g, x: 2 * x.detach() * g,
    "data": lambda g, x: 2 * x.data * g,
    "no_grad": _under_no_grad,
    "numpy": lambda g, x: torch.from_numpy(2 * x.detach().numpy() * g.detach().numpy()),
    "tolist": lambda g, x: 2 * torch.tensor(x.tolist(), dtype=x.dtype) * g,
    "written": _written_into,
}


@pytest.mark.parametrize("backward", LEAVING.values(), ids=LEAVING)
def test_a_backward_that_leaves_the_graph_is_refused_when_it_is_differentiated(backward):
    f, x = _square_with(backward), _leaf()
    torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x)[0], 2 * x.detach())
    torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(UsageError, match="whose backward leaves the graph"):
        _twice(f, x)


@pytest.mark.parametrize("name", ["detach", "data"])
def test_under_torch_func_too(name):
    f, x = _square_with(LEAVING[name]), torch.randn(3)
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(x), 2 * x)
    for second in (hessian, lambda f: jacrev(jacrev(f))):
        with pytest.raises(UsageError, match="whose backward leaves the graph"):
            second(lambda x: f(x).sum())(x)


def test_the_derivative_by_the_cotangent_is_not_refused():
    f, x, g = _square_with(LEAVING["detach"]), _leaf(), _leaf()
    (gradient,) = torch.autograd.grad(f(x), x, g, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(gradient.sum(), g)[0], 2 * x.detach())


def test_comparing_what_was_detached_is_no_loss():
    relu = custom_gradient(lambda x: x.relu(), lambda g, x: g * (x.detach() > 0))
    assert not _twice(relu, _leaf()).any()


def test_a_constant_second_derivative_is_not_refused():
    assert not _twice(custom_gradient(lambda x: 3 * x, lambda g: 3 * g), _leaf()).any()


def test_vjps_per_input_have_second_derivatives():
    @custom_gradient
    def product(x, w):
        return x * x * w

    product.vjp("x")(lambda g, x, w: 2 * g * x * w)
    product.vjp("w")(lambda g, x: g * x * x)
    assert torch.autograd.gradgradcheck(product, (_leaf(), _leaf()))
