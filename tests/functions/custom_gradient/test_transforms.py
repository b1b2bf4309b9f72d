"""Under torch.func, vmap and torch.compile."""

import pytest
import torch
from torch.func import functional_call, grad, jacrev, vmap

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals

# torch's own: Dynamo makes Functions, and decompositions still script.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Gradients five times what they are, so that a transform that forgets the backward is noticed.
square = custom_gradient(lambda x: x * x, lambda g, x: 10 * x * g)
product = custom_gradient(lambda x, w: x * w, lambda g, x, w: (g * w, g * x))


@custom_gradient
def gate(x, scale=2.0):
    mask = x > 0
    return x * mask * scale, residuals(mask=mask, slope=x.cos())


@gate.backward
def _(g, mask, slope, scale):
    return g * mask * slope * scale


@custom_gradient
def tree(parts, *, n=3):
    return {"product": parts["a"] * parts["b"][0], "rest": [parts["a"].sum(), n]}


@tree.backward
def _(g, parts):
    back = {"a": 5 * g["product"] * parts["b"][0] + g["rest"][0], "b": [5 * g["product"] * parts["a"]]}
    return {"parts": back}


@custom_gradient
def each(x, w):
    return x * w


each.vjp("x")(lambda g, w: 5 * g * w)
each.vjp("w")(lambda g, x: 5 * g * x)


@pytest.mark.parametrize(
    ("in_dims", "shapes"),
    [((0, 0), ((4, 3), (4, 3))), ((0, None), ((4, 3), (3,))), ((None, 0), ((3,), (4, 3))), ((1, 0), ((3, 4), (4, 3)))],
    ids=["both", "first", "second", "other axis"],
)
@pytest.mark.parametrize("by_keyword", [False, True], ids=["plainly", "by keyword"])
def test_vmap_and_its_gradient(in_dims, shapes, by_keyword):
    ours = (lambda x, w: product(x=x, w=w)) if by_keyword else product
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    found, known = (vmap(f, in_dims=in_dims)(*inputs) for f in (ours, torch.mul))
    torch.testing.assert_close(found, known)
    torch.testing.assert_close(
        torch.autograd.grad((found**2).sum(), inputs), torch.autograd.grad((known**2).sum(), inputs)
    )


def test_vmap_over_an_input_that_needs_no_gradient():
    x, w = torch.randn(4, 3), torch.randn(3)
    torch.testing.assert_close(grad(lambda w: vmap(product, in_dims=(0, None))(x, w).sum())(w), x.sum(0))


def test_vmap_in_vmap_and_per_sample_gradients():
    x, w = torch.randn(2, 4, 3), torch.randn(2, 3)
    torch.testing.assert_close(vmap(vmap(product, in_dims=(0, None)))(x, w), x * w[:, None])
    torch.testing.assert_close(vmap(grad(lambda x: square(x).sum()))(w), 10 * w)
    torch.testing.assert_close(vmap(grad(lambda x: gate(x, 3.0).sum()))(w), 3 * w.cos() * (w > 0))


def test_trees_keywords_and_vjps_per_input_under_torch_func():
    x = torch.randn(3)
    torch.testing.assert_close(grad(lambda x: tree({"a": x, "b": [x * 2]}, n=4)["product"].sum())(x), 20 * x)
    torch.testing.assert_close(grad(lambda x: tree({"a": x, "b": [x * 2]})["rest"][0])(x), torch.ones(3))
    torch.testing.assert_close(grad(lambda x: each(x, x.detach()).sum())(x), 5 * x)
    torch.testing.assert_close(jacrev(lambda x: each(x=x, w=x * 0 + 1))(x), 5 * torch.diag(x * 0 + 1))


def test_functional_call():
    linear, x = torch.nn.Linear(3, 3), torch.randn(3)
    found = grad(lambda p: square(functional_call(linear, p, (x,))).sum())(dict(linear.named_parameters()))
    torch.testing.assert_close(found["bias"], 10 * linear(x))


def test_what_was_saved_under_a_level_that_has_gone_keeps_its_graph():
    """See NOTE [dead wrappers]: torch's backward calls ours on what torch.func.vjp left wrapped."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2 * product(g, ctx.saved_tensors[0])

    x, g = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    _, back = torch.func.vjp(Square.apply, x)
    torch.testing.assert_close(torch.autograd.grad(back(g)[0].sum(), (g, x)), (2 * x, 2 * g))


COMPILED = {
    "inputs": (lambda x: square(x), lambda x: 10 * x),
    "residuals": (lambda x: gate(x, scale=3.0), lambda x: 3 * x.cos() * (x > 0)),
    "tree": (lambda x: tree({"a": x, "b": [x * 2]}, n=4)["product"], lambda x: 20 * x),
    "an unused output": (lambda x: tree({"a": x, "b": [x * 2]})["rest"][0], torch.ones_like),
    "vjps": (lambda x: each(x, x.detach()), lambda x: 5 * x),
    "one tensor twice": (lambda x: product(x, x), lambda x: 2 * x),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_whole_it_keeps_its_backward(name):
    torch._dynamo.reset()
    f, known = COMPILED[name]
    x = torch.randn(3, requires_grad=True)
    found = torch.autograd.grad(torch.compile(f, backend="aot_eager", fullgraph=True)(x).sum(), x)[0]
    torch.testing.assert_close(found, known(x.detach()))


def test_compiled_under_autocast():
    torch._dynamo.reset()
    matmul = custom_gradient(lambda x, w: x @ w, lambda g, x, w: (g @ w.T, x.T @ g))
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)

    def loss(f):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return f(x, w).float().sum()

    found = torch.autograd.grad(torch.compile(lambda: loss(matmul), backend="aot_eager", fullgraph=True)(), x)[0]
    torch.testing.assert_close(found, torch.autograd.grad(loss(torch.matmul), x)[0], rtol=0, atol=0)


def test_compiled_torch_func_is_right_outside_of_the_graph_and_raises_where_it_may_not_be():
    """Dynamo forgets the backward there (pytorch #193279)."""
    torch._dynamo.reset()
    x = torch.randn(3)

    def gradient(x):
        return grad(lambda x: square(x).sum())(x)

    torch.testing.assert_close(torch.compile(gradient, backend="aot_eager")(x), 10 * x)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Dynamo would drop its backward"):
        torch.compile(gradient, backend="aot_eager", fullgraph=True)(x)


@pytest.mark.filterwarnings("ignore:.*grad attribute of a Tensor that is not a leaf:UserWarning")  # Dynamo looks
def test_compiled_a_wrong_shape_and_a_write_are_still_told():
    torch._dynamo.reset()
    x, w = torch.randn(3, requires_grad=True), torch.randn(2, 3)
    written = custom_gradient(lambda x: x.mul_(2).clone(), lambda g: 2 * g)
    with pytest.raises(UsageError, match="sum_to_size"):
        torch.compile(lambda: product(x, w).sum(), backend="aot_eager")().backward()
    with pytest.raises(UsageError, match="in place"):
        torch.compile(lambda: written(x * 1), backend="aot_eager")()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("grad_mode", [True, False], ids=["grad", "no grad"])
def test_compiled_where_nothing_needs_a_gradient(count, grad_mode):
    torch._dynamo.reset()
    total = custom_gradient(lambda *xs: sum(xs), lambda g, xs: [(g,) * len(xs)])
    xs = [torch.randn(3) for _ in range(count)]
    with torch.set_grad_enabled(grad_mode):
        found = torch.compile(lambda: total(*xs), backend="aot_eager", fullgraph=True)()
    torch.testing.assert_close(found, sum(xs))


def test_vmap_inside_forward_mode_and_functions_inside_functions():
    x = torch.randn(4, 3, dtype=torch.float64)
    fourth = custom_gradient(lambda x: product(x, x) ** 2, lambda g, x: 4 * product(g, product(x, x)) * x)
    torch.testing.assert_close(torch.func.jvp(vmap(fourth), (x,), (x,))[1], 4 * x**4)
    torch.testing.assert_close(vmap(torch.func.hessian(lambda x: fourth(x).sum()))(x), torch.diag_embed(12 * x**2))


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict):
    class Net(torch.nn.Module):
        def forward(self, x, w):
            return product(x, w)

    x, w = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(torch.export.export(Net(), (x, w), strict=strict).module()(x, w), x * w)


# --- an output that all examples share ------------------------------------------------------------------------------


def copy_and_product(x, v):
    return v.clone(), x * v


class CopyAndProduct(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, v):
        return copy_and_product(x, v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, v = ctx.saved_tensors
        return h * v, g + h * x


shared_output = custom_gradient(copy_and_product, lambda g, x, v: (g[1] * v, g[0] + g[1] * x))


def summed_over_examples(f, x):
    return lambda v: sum((out * out.detach().cos()).sum() for out in torch.func.vmap(f, in_dims=(0, None))(x, v))


@pytest.mark.parametrize("by", ["grad", "backward", "jvp", "hessian"])
def test_an_output_that_all_examples_share_gets_its_cotangent_once(by):
    x, v = torch.randn(3, 2, dtype=torch.float64), torch.randn(2, dtype=torch.float64)

    def derivative(f):
        total = summed_over_examples(f, x)
        if by == "backward":
            leaf = v.clone().requires_grad_()
            return torch.autograd.grad(total(leaf), leaf)[0]
        if by == "jvp":
            return torch.func.jvp(total, (v,), (torch.ones_like(v),))[1]
        return {"grad": torch.func.grad, "hessian": torch.func.hessian}[by](total)(v)

    assert torch.allclose(derivative(shared_output), derivative(copy_and_product), atol=1e-12)


def test_torch_gives_a_shared_output_its_cotangent_once_for_every_example():
    """When this fails, torch has mended it: ``levels.each_of_its_own`` is needed no more."""
    x, v = torch.randn(3, 2), torch.randn(2)
    found, right = (torch.func.grad(summed_over_examples(f, x))(v) for f in (CopyAndProduct.apply, copy_and_product))
    assert not torch.allclose(found, right)
