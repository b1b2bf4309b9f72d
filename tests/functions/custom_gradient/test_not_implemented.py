"""A gradient that is not implemented is an error where it is needed, and nothing where it is not."""

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals

# torch's own decompositions still script, when forward mode is first used.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),  # Dynamo's own
    pytest.mark.filterwarnings("ignore:.*grad attribute of a Tensor that is not a leaf:UserWarning"),  # Dynamo looks
]


def _product(x, w):
    return x * w


def _with_residual(x, w):
    return x * w, residuals(mask=x > 0)


def _in_a_tree(d):
    return d["x"] * d["w"]


@custom_gradient
def _per_input(x, w):
    return x * w


_per_input.vjp("x")(lambda g, w: g * w)


@custom_gradient
def _per_input_with_residual(x, w):
    return x * w, residuals(also=w)


_per_input_with_residual.vjp("x")(lambda g, also: g * also)

_ALONE = custom_gradient(_product, lambda g, w: (g * w, NotImplemented))
_TREE = custom_gradient(_in_a_tree, lambda g, d: {"d": {"x": g * d["w"], "w": NotImplemented}})

WAYS = {
    "plainly": _ALONE,
    "by keyword": lambda x, w: _ALONE(x, w=w),
    "by name": custom_gradient(_product, lambda g, w: {"x": g * w, "w": NotImplemented}),
    "a residual": custom_gradient(_with_residual, lambda g, w, mask: (g * w, NotImplemented)),
    "in a tree": lambda x, w: _TREE({"x": x, "w": w}),
    "no vjp": _per_input,
    "no vjp, by keyword": lambda x, w: _per_input(x, w=w),
    "no vjp, a residual": _per_input_with_residual,
    "compiled": torch.compile(_ALONE, backend="eager"),
    "compiled, no vjp": torch.compile(_per_input, backend="eager"),
}


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, requires_grad=True), torch.randn(3)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_told_where_it_is_needed(way):
    x, w = _inputs()
    with pytest.raises(NotImplementedError, match=r"no gradient by .* is implemented, and one is needed") as caught:
        WAYS[way](x, w.requires_grad_()).sum().backward()
    assert isinstance(caught.value, UsageError)
    assert "test_not_implemented.py" in str(caught.value)
    assert ".detach(), if its gradient is not wanted" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_nothing_where_it_is_not_needed(way):
    x, w = _inputs()
    torch.testing.assert_close(torch.autograd.grad(WAYS[way](x, w).sum(), x)[0], w)


@pytest.mark.parametrize("way", [way for way in WAYS if "compiled" not in way])
def test_under_torch_func_and_with_a_graph_of_the_backward(way):
    f, (x, w) = WAYS[way], _inputs()
    x = x.detach()
    torch.testing.assert_close(torch.func.grad(lambda x: f(x, w).sum())(x), w)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f), in_dims=(0, 0))(x, w), w)
    torch.testing.assert_close(torch.func.jvp(lambda x: f(x, w), (x,), (w,))[1], w * w)
    for call in (
        lambda: torch.func.grad(lambda w: f(x, w).sum())(w),
        lambda: torch.func.vmap(torch.func.grad(f, argnums=1))(x, w),
        lambda: torch.func.jvp(lambda w: f(x, w), (w,), (x,)),
        lambda: torch.autograd.grad(f(x, w.requires_grad_()).sum(), w, create_graph=True),
    ):
        with pytest.raises(NotImplementedError, match="no gradient by"):
            call()


@pytest.mark.parametrize("way", ["plainly", "no vjp"])
def test_under_autocast(way):
    x, w = _inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(NotImplementedError, match="no gradient by w"):
        WAYS[way](x, w.requires_grad_()).sum().backward()


def test_the_whole_of_a_tree_or_of_the_only_input_can_be_it():
    x = torch.randn(3, requires_grad=True)
    for f in (
        custom_gradient(lambda d: d["x"] * 2, lambda g: NotImplemented),
        custom_gradient(lambda d: d["x"] * 2, lambda g: {"d": NotImplemented}),
    ):
        with pytest.raises(NotImplementedError, match="no gradient by d"):
            f({"x": x}).sum().backward()
    with pytest.raises(NotImplementedError, match="no gradient by x"):
        custom_gradient(lambda x: x * 2, lambda g: NotImplemented)(x).sum().backward()


def test_an_integer_without_a_vjp_needs_none():
    @custom_gradient
    def pick(x, index):
        return x[index]

    pick.vjp("x")(lambda g, x, index: torch.zeros_like(x).index_add(0, index, g))
    x, index = torch.randn(4, requires_grad=True), torch.tensor([1, 2])
    for output in (pick(x, index), pick(x, index=index)):
        assert torch.autograd.grad(output.sum(), x)[0].tolist() == [0.0, 1.0, 1.0, 0.0]
