"""A tensor that the forward uses and is not handed would silently get no gradient: that is told, and only that."""

import functools

import numpy
import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals

# torch's own decompositions still script, when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

weight = torch.nn.Parameter(torch.ones(3))
linear = torch.nn.Linear(3, 3)


def _leaf() -> torch.Tensor:
    return torch.randn(3, requires_grad=True)


def _into(x):
    out = torch.zeros(3)
    out[:] = x * weight
    return out


def _into_a_row(x):
    out = torch.zeros(2, 3)
    out[0].add_(x * weight)
    return out


def _into_what_is_viewed_already(x):
    out = torch.zeros(3)
    view = out[1:]
    out += x * weight
    return view


def _into_half_by_setting(x):
    out = x.clone()
    out[:2][:] = weight[:2]
    return out


def _into_out(x):
    out = torch.zeros(3)
    torch.mul(x, weight, out=out[:])
    return out


def _into_a_list(x):
    out = torch.zeros(3)
    torch._foreach_add_([out[:2]], [weight[:2]])
    return out


def _twice(x):
    return custom_gradient(lambda x: x * weight, lambda g: g)(x) * 2


def _row_and_more(x):
    return x * 2, [x + weight[0], 3], residuals(mask=x > 0)


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x)


held = Holder()
FORWARDS = {
    "a parameter": (lambda x: x * weight, "the tensor weight"),
    "through an operator of the module": (lambda x: linear(x), "the tensor linear.bias and linear.weight"),
    "a module": (held.forward, "the tensor self.inner.bias and self.inner.weight"),
    "a partial": (functools.partial(torch.mul, weight), ""),
    "a partial of a function": (functools.partial(lambda w, x: x * w, weight), "the tensor 0"),
    "written into": (_into, "the tensor weight"),
    "written into a row": (_into_a_row, "the tensor weight"),
    "written into what is viewed already": (_into_what_is_viewed_already, "the tensor weight"),
    "written into half by setting": (_into_half_by_setting, "the tensor weight"),
    "written into out": (_into_out, "the tensor weight"),
    "written into a list": (_into_a_list, "the tensor weight"),
    "itself": (lambda x: weight, "the tensor weight"),
    "by a function within": (_twice, "a tensor of shape [3]"),
    "in a tree, with residuals": (_row_and_more, "the tensor weight"),
    "converted": (lambda x: x + weight.to(x) + weight.type_as(x), "the tensor weight"),
    "a transposed one": (lambda x: x @ linear.weight.T, "the tensor linear.weight"),
}


def plainly(f, x):
    return f(x)


def by_keyword(f, x):
    return f(x=x)


def _custom(forward):
    try:
        return custom_gradient(forward, lambda g: g)
    except UsageError:  # a builtin has no signature
        return custom_gradient(lambda x: forward(x), lambda g: g)


@pytest.mark.parametrize(("forward", "named"), FORWARDS.values(), ids=FORWARDS)
def test_a_tensor_that_is_closed_over_is_told(forward, named):
    for call in (plainly, by_keyword):
        f = _custom(forward)
        for _ in range(2):  # and it is told again
            with pytest.raises(UsageError, match="which requires a gradient and is no input") as caught:
                call(f, _leaf())
            assert named in str(caught.value), call


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
@pytest.mark.parametrize("forward", ["a parameter", "written into", "written into a row", "written into out"])
def test_not_without_grad_mode_but_at_the_first_call_with_it(forward, off):
    for call in (plainly, by_keyword):
        plain, x = FORWARDS[forward][0], _leaf()
        f = custom_gradient(plain, lambda g: g)
        with off():
            for _ in range(2):
                torch.testing.assert_close(call(f, x), plain(x))
        with pytest.raises(UsageError, match="the tensor weight"):
            call(f, x)


def test_under_torch_func():
    def made(w):
        return custom_gradient(lambda x: x * w, lambda g: g * w)

    x, w = torch.randn(3), torch.randn(3)
    with pytest.raises(UsageError, match="the tensor w, which"):
        torch.func.grad(lambda w: made(w)(x).sum())(w)
    with pytest.raises(UsageError, match="the tensor w, which"):
        torch.func.grad(lambda x: made(weight)(x).sum())(x)
    torch.testing.assert_close(torch.func.grad(lambda x: made(w)(x).sum())(x), w)


class Scale:
    def __init__(self, w):
        self.w = w

    def by(self, x):
        return x * self.w

    def __call__(self, x):
        return x * self.w


class ScaleModule(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, x):
        return x * self.w


def _listed(w):
    several = [{"w": (w,)}]
    return lambda x: x * several[0]["w"][0]


def _wrapped(w):
    def scaled(x):
        return x * w

    def decorated(function):
        return functools.wraps(function)(lambda *args: function(*args))

    return decorated(scaled)


def _by_a_function_that_is_closed_over(w):
    scaled = _wrapped(w)
    return lambda x: scaled(x) * 1


def _by_a_module_that_is_closed_over(w):
    module = ScaleModule(w)
    return lambda x: module(x)


def _into_a_view(w):
    def scaled(x):
        out = torch.zeros(2, 3)
        out[0].add_(x * w)
        return out.sum(0)

    return scaled


HIDDEN = {
    "a bound method": (lambda w: Scale(w).by, "the tensor self.w, which"),
    "an object that is called": (Scale, "the tensor self.w, which"),
    "a bound method of a module": (lambda w: ScaleModule(w).forward, "the tensor self.w, which"),
    "a list": (_listed, r"the tensor several\[0\]\['w'\]\[0\], which"),
    "functools.wraps": (_wrapped, "the tensor w, which"),
    "a function within": (_by_a_function_that_is_closed_over, "the tensor w, which"),
    "a module within": (_by_a_module_that_is_closed_over, "the tensor module.w, which"),
    "a view that is written to": (_into_a_view, "the tensor w, which"),
}


@pytest.mark.parametrize(("made", "named"), HIDDEN.values(), ids=HIDDEN)
def test_under_torch_func_it_is_told_wherever_it_hides(made, named):
    x, w = torch.randn(3), torch.randn(3)
    with pytest.raises(UsageError, match=named):
        torch.func.grad(lambda w: custom_gradient(made(w), lambda g: g)(x).sum())(w)
    f = custom_gradient(made(w), lambda g: g)
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(x), torch.ones(3))


def _dual(function, w):
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(w, w))


DERIVATIVES = {
    "forward mode": _dual,
    "forward mode, without grad mode": lambda function, w: torch.no_grad()(_dual)(function, w),
    "jvp": lambda function, w: torch.func.jvp(function, (w,), (w,)),
    "vjp": lambda function, w: torch.func.vjp(function, w),
    "jacfwd": lambda function, w: torch.func.jacfwd(function)(w),
    "hessian": lambda function, w: torch.func.hessian(lambda w: function(w).sum())(w),
    "vmap of grad": lambda function, w: torch.func.vmap(torch.func.grad(lambda w: function(w).sum()))(w.expand(2, 3)),
}


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
def test_it_is_told_whichever_derivative_would_miss_it(derivative):
    x, w = torch.randn(3), torch.randn(3)

    def function(w):
        return custom_gradient(lambda x: x * w, lambda g: g)(x)

    with pytest.raises(UsageError, match="the tensor w, which"):
        derivative(function, w)


def _search(x):
    """One step of a search with an inner gradient."""
    with torch.enable_grad():
        inner = x.detach().requires_grad_()
        energy = (inner**2).sum() * x.sum()
        (step,) = torch.autograd.grad(energy, inner, create_graph=True)
    return x - step + energy


def _inner_leaf(x):
    with torch.enable_grad():
        inner = x.detach().clone()
        inner.requires_grad = True
        return inner * 2


def _logged(x):
    seen.append(weight.sum())
    return x * 2


seen: list[torch.Tensor] = []
frozen = torch.ones(3)
HARMLESS = {
    "frozen": lambda x: x * frozen,
    "detached": lambda x: x * weight.detach(),
    "data": lambda x: x * weight.data,
    "shape": lambda x: x.reshape(weight.shape) * weight.numel(),
    "like it": lambda x: x + torch.zeros_like(weight) + weight.new_ones(3),
    "converted like it": lambda x: x.type_as(weight).to(weight),
    "shaped like it": lambda x: x.view_as(weight).reshape_as(weight).expand_as(weight) * torch.ones_like(weight),
    "resized like it": lambda x: torch.zeros(3).resize_as_(weight).copy_(x),
    "filled like it": lambda x: torch.empty_like(weight).copy_(x) * torch.full_like(weight, 2.0),
    "written into by itself": lambda x: torch.zeros(2, 3).index_fill_(0, torch.tensor([0]), 1.0)[0].add_(x),
    "compared": lambda x: x * (x > weight),
    "by index": lambda x: x[weight.argsort()],
    "logged": _logged,
    "an inner gradient": _search,
    "an inner leaf": _inner_leaf,
    "torch.func inside": lambda x: torch.func.grad(lambda z: (z**3).sum())(x),
    "jacrev inside": lambda x: torch.func.jacrev(torch.sin)(x).sum(0),
    "vmap inside": lambda x: torch.func.vmap(torch.sin)(x),
    "NumPy": lambda x: torch.from_numpy(numpy.sin(x.detach().numpy())),
    "the input": lambda x: x,
    "a view": lambda x: x[1:],
    "in place": lambda x: x.clone().mul_(2),
}


@pytest.mark.parametrize("forward", HARMLESS.values(), ids=HARMLESS)
def test_no_false_alarm(forward):
    for call in (plainly, by_keyword):
        f, x = custom_gradient(forward, lambda g, x: x * 2), torch.randn(3, requires_grad=True) * 1
        torch.testing.assert_close(call(f, x), forward(x))
        torch.testing.assert_close(call(f, x), forward(x))


def _on_the_way(x, weighted=None):
    return x * 2 if weighted is None else x * weight


def test_a_call_with_a_keyword_of_another_type_is_looked_at_too():
    f, x = custom_gradient(_on_the_way, lambda g: g), _leaf()
    torch.testing.assert_close(f(x, weighted=None), x * 2)
    with pytest.raises(UsageError, match="the tensor weight"):
        f(x, weighted=True)


def test_what_only_the_backward_names_is_no_matter():
    f, x = custom_gradient(lambda x: x * 2, lambda g: g * weight.detach()), _leaf()
    f(x).sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_the_forward_runs_once():
    runs = []

    def counted(x):
        runs.append(x)
        return x * torch.rand(3)

    f = custom_gradient(counted, lambda g: g)
    f(_leaf())
    f(_leaf())
    assert len(runs) == 2
