"""The jvp is the transposed vjp, where that has a transpose; else it is given, or refused."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import hessian, jacfwd, jacrev, jvp

from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals
from gradwright.functions.custom_gradient.returned import Meta
from gradwright.functions.custom_gradient.transpose import NotLinear, transposed

# torch's own decompositions still script, when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

sine = custom_gradient(lambda x: x.sin(), lambda g, x: g * x.cos())
parts = custom_gradient(
    lambda x: {"sine": x.sin(), "more": [x.cos(), 3]},
    lambda g, output: g["sine"] * output["more"][0] - g["more"][0] * output["sine"],
)


@custom_gradient
def with_residual(x):
    return x.sin(), residuals(slope=x.cos(), positive=x > 0)


@with_residual.backward
def _(grad_output, x, slope, positive):
    return grad_output * slope * positive + grad_output * slope * ~positive


@custom_gradient
def given(x):
    return x.sin()


@given.backward
def _(grad_output, x):
    return grad_output * x.cos()


@given.jvp
def _(tangent, x):
    return tangent * x.cos()


SINES = {"inputs": sine, "output": lambda x: parts(x)["sine"], "residual": with_residual, "given jvp": given}
NESTED = {
    "forward over forward": lambda f, x: jacfwd(jacfwd(f))(x),
    "forward over reverse": lambda f, x: jacfwd(jacrev(f))(x),
    "reverse over forward": lambda f, x: jacrev(jacfwd(f))(x),
    "reverse over reverse": lambda f, x: jacrev(jacrev(f))(x),
    "hessian": lambda f, x: hessian(f)(x),
}


def _point() -> torch.Tensor:
    return torch.randn(3, dtype=torch.float64)


@pytest.mark.parametrize("f", SINES.values(), ids=SINES)
def test_the_jvp_is_the_transposed_vjp(f):
    x, t = _point(), _point()
    torch.testing.assert_close(jvp(f, (x,), (t,))[1], t * x.cos())
    torch.testing.assert_close(jacfwd(f)(x), torch.diag(x.cos()))
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent
    torch.testing.assert_close(tangent, t * x.cos())


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("f", SINES.values(), ids=SINES)
def test_second_derivatives_are_right_in_every_order_of_modes(f, nested):
    x = _point()
    torch.testing.assert_close(nested(lambda x: f(x).sum(), x), -torch.diag(x.sin()))


@pytest.mark.parametrize("f", SINES.values(), ids=SINES)
def test_third_derivatives_forward_over_forward(f):
    x = _point()
    found = jacfwd(jacfwd(jacfwd(lambda x: f(x).sum())))(x)
    torch.testing.assert_close(found, torch.diag_embed(torch.diag(-x.cos())))


@pytest.mark.parametrize("f", SINES.values(), ids=SINES)
def test_the_two_modes_mix_outside_of_torch_func(f):
    x, ones = _point().requires_grad_(), torch.ones(3, dtype=torch.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, ones)
        (gradient,) = torch.autograd.grad(f(dual).sum(), dual, create_graph=True)
        over_reverse = forward_ad.unpack_dual(gradient).tangent
        (over_forward,) = torch.autograd.grad(forward_ad.unpack_dual(f(dual)).tangent.sum(), x)
    torch.testing.assert_close(over_reverse, -x.sin())
    torch.testing.assert_close(forward_ad.unpack_dual(over_forward).primal, -x.sin().detach())


def test_torchs_own_function_is_silently_zero_forward_over_forward():
    """Why the jvp runs with forward mode on (NOTE [forward over forward]); when this fails, torch has mended it."""

    class Sine(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.saved_tensors[0].cos()

    assert not jacfwd(jacfwd(lambda x: Sine.apply(x).sum()))(_point()).any()


NOT_LINEAR = {
    "clamped": lambda g: g.clamp(-1, 1) * 2,
    "rectified": lambda g: g.clamp(min=0) * 2,
    "clipped by norm": lambda g: g * (1 / g.norm()).clamp(max=1.0),
    "sign": lambda g: g.sign(),
    "detached": lambda g: g.detach() * 2,
    "shifted": lambda g: g * 2 + 1,
    "through numpy": lambda g: torch.from_numpy(g.detach().numpy() * 2),
}


@pytest.mark.parametrize("backward", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_a_backward_without_a_transpose_is_refused(backward):
    f = custom_gradient(lambda x: x * 2, backward)
    x = _point()
    for forward_mode in (lambda: jvp(f, (x,), (x,)), lambda: jacfwd(f)(x)):
        with pytest.raises(UsageError, match="can't be transposed into a forward-mode rule"):
            forward_mode()


@pytest.mark.parametrize("backward", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_a_given_jvp_is_taken_as_it_is(backward):
    f = custom_gradient(lambda x: x * 2, backward)
    f.jvp(lambda tangent: tangent * 2)
    x = _point()
    torch.testing.assert_close(jvp(f, (x,), (x,))[1], 2 * x)


def test_no_random_number_is_drawn():
    state = torch.get_rng_state()
    jvp(sine, (_x := torch.ones(3),), (_x,))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_linear_backward_has_its_transpose_in_every_precision(dtype):
    matrix, t = torch.randn(4, 3).to(dtype), torch.randn(3).to(dtype)
    (found,) = transposed(lambda u: (matrix.T @ u[0],), [Meta.of(torch.empty(4, dtype=dtype))], [t])
    torch.testing.assert_close(found, matrix @ t)


def test_a_transpose_that_is_far_from_linear_is_found_by_either_check():
    meta = Meta.of(torch.empty(4))
    for pull in (lambda u: (u[0] ** 3,), lambda u: (u[0].detach(),)):
        with pytest.raises(NotLinear):
            transposed(pull, [meta], [torch.randn(4)])


def test_the_jvp_gets_tangents_in_the_structure_of_the_inputs_and_zeros_where_there_are_none():
    seen = {}

    @custom_gradient
    def product(pair, scale, n=2):
        return pair[0] * pair[1] * scale * n, n

    @product.backward
    def _(g, pair, scale, n):
        return (g[0] * pair[1] * scale * n, g[0] * pair[0] * scale * n), g[0] * pair[0] * pair[1] * n

    @product.jvp
    def _(tangents, pair, scale, n):
        seen["tangents"] = tangents
        (left, right), of_scale = tangents
        inner = left * pair[1] * scale + pair[0] * right * scale + pair[0] * pair[1] * of_scale
        return inner * n, None

    a, b, s = _point(), _point(), _point()
    found = jvp(lambda a: product((a, b), s)[0], (a,), (torch.ones_like(a),))[1]
    torch.testing.assert_close(found, 2 * b * s)
    assert [t.abs().sum().item() for t in (seen["tangents"][0][1], seen["tangents"][1])] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("jvp_rule", "told"),
    [
        (lambda t: t.sum(), "as the tangent of an output that is float64[3]"),
        (lambda t: t.float(), "as the tangent of an output that is float64[3]"),
        (lambda t: (t, t), "as the tangent of an output that is float64[3]"),
    ],
    ids=["shape", "dtype", "two"],
)
def test_a_tangent_that_does_not_fit_is_told(jvp_rule, told):
    f = custom_gradient(lambda x: x * 2, lambda g: g * 2)
    f.jvp(jvp_rule)
    with pytest.raises(UsageError) as caught:
        jvp(f, (_point(),), (_point(),))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (lambda x: (x * 2)[1:], lambda g: 2 * torch.nn.functional.pad(g, (1, 0))),
        (lambda x: (lambda y: (y, y))(x * 2), lambda g: 2 * (g[0] + g[1])),
        (lambda x: (x, x * x), lambda g, x: g[0] + 2 * x * g[1]),
        (lambda x: x, lambda g: g),
    ],
    ids=["a view", "the same twice", "the input too", "the input"],
)
def test_outputs_that_are_not_fresh_have_tangents(forward, backward):
    x, t = _point(), _point()
    found, known = (jvp(f, (x,), (t,)) for f in (custom_gradient(forward, backward), forward))
    torch.testing.assert_close(found, known)


def test_the_tangent_of_a_gradient_that_is_none_is_zero():
    f = custom_gradient(lambda x, w: x * 0 + w, lambda g: (None, g))
    x = _point()
    assert not jvp(lambda x: f(x, x.detach()), (x,), (x,))[1].any()
