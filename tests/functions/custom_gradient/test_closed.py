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
    "itself": (lambda x: weight, "the tensor weight"),
    "by a function within": (_twice, "a tensor of shape [3]"),
    "in a tree, with residuals": (_row_and_more, "the tensor weight"),
    "a transposed one": (lambda x: x @ linear.weight.T, "the tensor linear.weight"),
}
CALLS = {"plainly": lambda f, x: f(x), "by keyword": lambda f, x: f(x=x)}


def _custom(forward):
    try:
        return custom_gradient(forward, lambda g: g)
    except UsageError:  # a builtin has no signature
        return custom_gradient(lambda x: forward(x), lambda g: g)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("forward", "named"), FORWARDS.values(), ids=FORWARDS)
def test_a_tensor_that_is_closed_over_is_told(forward, named, call):
    f = _custom(forward)
    for _ in range(2):  # and it is told again
        with pytest.raises(UsageError, match="which requires a gradient and is no input") as caught:
            call(f, _leaf())
        assert named in str(caught.value)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_not_without_grad_mode_but_at_the_first_call_with_it(call):
    f, x = custom_gradient(lambda x: x * weight, lambda g: g * weight), _leaf()
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(f, x), x * weight)
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


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("forward", HARMLESS.values(), ids=HARMLESS)
def test_no_false_alarm(forward, call):
    f, x = custom_gradient(forward, lambda g, x: x * 2), torch.randn(3, requires_grad=True) * 1
    torch.testing.assert_close(call(f, x), forward(x))
    torch.testing.assert_close(call(f, x), forward(x))


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
