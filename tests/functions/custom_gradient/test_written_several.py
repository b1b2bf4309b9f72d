"""Residuals and several outputs, written out: right in every way in which a call may differ from the first."""

import pytest
import torch

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.functions.custom_gradient import custom_gradient, residuals


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (3,)), dtype=torch.float64, requires_grad=True)


def _swish(x, w):
    gate = torch.sigmoid(x)
    return x * gate * w, residuals(gate=gate, unused=x)


def _both(x, w):
    return x * w, x.sin()


swish = custom_gradient(_swish, lambda g, x, w, gate: (g * w * gate * (1 + x * (1 - gate)), g * x * gate))


def _masked(x, w):
    mask = w > 0
    return x * 2 * mask, residuals(mask=mask)


unsaved = custom_gradient(_masked, lambda g, mask: (2 * g * mask, None))
both = custom_gradient(_both, lambda gs, x, w: (gs[0] * w + gs[1] * x.cos(), gs[0] * x))


def _plain_swish(x, w):
    return x * torch.sigmoid(x) * w


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_first_and_second_derivatives(turn):
    """The first call runs the general code, later ones what is written out."""
    x, w = _leaf(), _leaf()
    assert torch.autograd.gradcheck(swish, (x, w))
    assert torch.autograd.gradgradcheck(swish, (x, w))
    assert torch.autograd.gradcheck(both, (x, w))
    assert torch.autograd.gradgradcheck(both, (x, w))
    mixed = [torch.autograd.grad(f(x, w).sum(), (x, w), create_graph=True) for f in (swish, _plain_swish)]
    torch.testing.assert_close(*mixed)
    torch.testing.assert_close(*[torch.autograd.grad(first.sum(), (x, w)) for first, _ in mixed])


def test_unsaved_inputs_and_gradients_of_none():
    for _ in range(3):
        x, w = _leaf(), _leaf()
        found = torch.autograd.grad(unsaved(x, w).sum(), (x, w), allow_unused=True)
        assert found[1] is None
        torch.testing.assert_close(found[0], 2 * (w.detach() > 0).to(x.dtype))


def test_an_output_that_is_not_used_has_a_cotangent_of_zeros():
    for _ in range(3):
        x, w = _leaf(), _leaf()
        torch.testing.assert_close(torch.autograd.grad(both(x, w)[1].sum(), x)[0], x.detach().cos())
        assert torch.autograd.grad(both(x, w)[1].sum(), w)[0].tolist() == [0.0] * 3


OTHERWISE = {
    "as ever": lambda x: (x * 2, {"kept": x.detach() + 0}),
    "the input": lambda x: (x * 2, {"kept": x}),
    "no tensor": lambda x: (x * 2, {"kept": 2}),
    "a tree": lambda x: (x * 2, {"kept": [x + 0, None]}),
    "two outputs": lambda x: (x * 1, x * 1, {"kept": x + 0}),
    "integers": lambda x: (x * 2, {"kept": x.argsort()}),
}


@pytest.mark.parametrize("first", OTHERWISE)
def test_a_call_may_return_something_else_than_the_first(first):
    for later in OTHERWISE:
        returned(first, later)


def returned(first, later):
    now = first

    @custom_gradient
    def f(x):
        *outputs, handed = OTHERWISE[now](x)
        return (*outputs, residuals(**handed))

    @f.backward
    def _(g, kept):
        return g[0] + g[1] if isinstance(g, tuple) else 2 * g

    for now in (first, later, first, later):  # noqa: B007  # f reads it
        x = _leaf()
        out = f(x)
        total = sum(item.sum() for item in out) if isinstance(out, tuple) else out.sum()
        assert torch.autograd.grad(total, x)[0].tolist() == [2.0] * 3


PAIRS = {
    "as ever": lambda x: (x * 1, x * 1),
    "twice the same": lambda x: (y := x * 1, y),
    "the input": lambda x: (x, x * 1),
    "one": lambda x: x * 2,
    "a list": lambda x: [x * 1, x * 1],
    "three": lambda x: (x * 1, x * 1, x * 0),
    "with an integer": lambda x: (x * 2, x.argmax()),
    "rows": lambda x: torch.stack([x, x]),
}


@pytest.mark.parametrize("first", PAIRS)
def test_outputs_may_be_others_than_at_first(first):
    for later in PAIRS:
        put_out(first, later)


def put_out(first, later):
    now = first

    @custom_gradient
    def f(x):
        return PAIRS[now](x)

    @f.backward
    def _(g):
        return {"one": lambda: 2 * g, "rows": lambda: g.sum(0), "with an integer": lambda: 2 * g[0]}.get(
            now, lambda: g[0] + g[1]
        )()

    for now in (first, later, first, later):  # noqa: B007  # f reads it
        x = _leaf()
        out = f(x)
        parts = [out] if isinstance(out, torch.Tensor) else out
        total = sum(part.sum() for part in parts if part.is_floating_point())
        assert torch.autograd.grad(total, x)[0].tolist() == [2.0] * 3


@pytest.mark.parametrize("f", [swish, both], ids=["residual", "outputs"])
def test_autocast_and_inference_tensors_take_the_general_way(f):
    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    def gradients():
        out = f(x, w)
        return torch.autograd.grad((out[0] if isinstance(out, tuple) else out).sum(), (x, w))

    known = gradients()
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = f(x, w)
        found = torch.autograd.grad((out[0] if isinstance(out, tuple) else out).sum(), (x, w))
        torch.testing.assert_close(found, known)
        with torch.inference_mode():
            f(x, w)
            f(x + 0, w)
        torch.testing.assert_close(gradients(), known)


def test_mistakes_are_told_later_too():
    wrong = custom_gradient(_swish, lambda g, x, w, gate: (g.sum(), g))
    pair = custom_gradient(_both, lambda gs, x, w: (gs[0].sum(), gs[1]))
    for _ in range(3):
        with pytest.raises(UsageError, match="as the gradient of x"):
            wrong(_leaf(), _leaf()).sum().backward()
        with pytest.raises(UsageError, match="as the gradient of x"):
            pair(_leaf(), _leaf())[0].sum().backward()


def test_a_residual_that_is_missing_later_is_told():
    def forward(x):
        return x * 1, residuals(**handed)

    f = custom_gradient(forward, lambda g, kept: g)
    handed = {"kept": torch.ones(3)}
    f(_leaf())
    f(_leaf())
    handed = {"other": torch.ones(3)}
    with pytest.raises(UsageError, match="asks for `kept`"):
        f(_leaf())


@pytest.mark.parametrize("f", [swish, both], ids=["residual", "outputs"])
def test_gw_check_finds_nothing(f):
    assert gw.check(f, torch.randn(3), torch.randn(3), level="standard").ok


def test_gw_check_finds_a_wrong_one():
    assert not gw.check(custom_gradient(_both, lambda gs, x, w: (gs[0] * w, gs[0] * x)), *torch.randn(2, 3)).ok
    assert not gw.check(
        custom_gradient(_swish, lambda g, x, w, gate: (g * w * gate, g * x * gate)), *torch.randn(2, 3)
    ).ok
