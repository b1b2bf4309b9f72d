"""Every way of letting gradients flow under every law: one row of the table per flow, one function per law.

A flow's gradient is a formula that the docstring gives, not a derivative; the laws hold each one to that formula, in
every transform of torch, or to an exception. All formulas here are symmetric maps of the cotangent, so the forward mode
of a linear flow is the same formula applied to the tangent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.laws import Laws
from torch import Tensor, nn
from torch.autograd import forward_ad

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.functions import flow as flows
from gradwright.functions import surrogate_reason

# torch's own: forward mode compiles its decompositions by a deprecated means, Dynamo makes an instance of a Function
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

Gradient = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Flow:
    """``value(x)`` is what ``function(x)`` returns, ``gradient(x, cotangent)`` what it passes on."""

    name: str
    function: Callable[[Tensor], Tensor]
    module: nn.Module
    value: Callable[[Tensor], Tensor]
    gradient: Gradient
    linear: bool = True
    shares_memory: bool = True
    complex_too: bool = True

    def __str__(self) -> str:
        return self.name


def same(x: Tensor) -> Tensor:
    return x


def softmax_gradient(x: Tensor, cotangent: Tensor) -> Tensor:
    soft = (x / 0.5).softmax(-1)
    return soft * (cotangent - (soft * cotangent).sum(-1, keepdim=True)) / 0.5


def one_hot(x: Tensor) -> Tensor:
    return nn.functional.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype)


def shortened(x: Tensor, cotangent: Tensor) -> Tensor:
    return cotangent * (0.5 / torch.linalg.vector_norm(cotangent, dim=-1, keepdim=True)).clamp(max=1)


def as_it_comes(x: Tensor, cotangent: Tensor) -> Tensor:
    return cotangent


FLOWS = [
    Flow(
        "reverse",
        lambda x: flows.reverse_gradient(x, 0.3),
        flows.ReverseGradient(0.3),
        same,
        lambda x, cotangent: -0.3 * cotangent,
    ),
    Flow(
        "scale",
        lambda x: flows.scale_gradient(x, 2.5),
        flows.ScaleGradient(2.5),
        same,
        lambda x, cotangent: 2.5 * cotangent,
    ),
    Flow(
        "clip value",
        lambda x: flows.clip_gradient(x, value=0.6),
        flows.ClipGradient(value=0.6),
        same,
        lambda x, cotangent: cotangent.clamp(-0.6, 0.6),
        linear=False,
        complex_too=False,
    ),
    Flow(
        "clip norm",
        lambda x: flows.clip_gradient(x, norm=0.5, dim=-1),
        flows.ClipGradient(norm=0.5, dim=-1),
        same,
        shortened,
        linear=False,
    ),
    Flow(
        "stop",
        flows.stop_gradient,
        flows.StopGradient(),
        same,
        lambda x, cotangent: torch.zeros_like(cotangent),
    ),
    Flow(
        "straight through",
        lambda x: flows.straight_through(x.floor(), x.tanh()),
        flows.StraightThrough(torch.floor, torch.tanh),
        torch.floor,
        lambda x, cotangent: cotangent * (1 - x.tanh() ** 2),
        shares_memory=False,
        complex_too=False,
    ),
    Flow(
        "round",
        flows.round_through,
        flows.RoundThrough(),
        torch.round,
        as_it_comes,
        shares_memory=False,
        complex_too=False,
    ),
    Flow(
        "sign",
        flows.sign_through,
        flows.SignThrough(),
        lambda x: torch.where(x >= 0, 1.0, -1.0).to(x.dtype),
        lambda x, cotangent: cotangent * (x.abs() <= 1),
        shares_memory=False,
        complex_too=False,
    ),
    Flow(
        "sign everywhere",
        lambda x: flows.sign_through(x, saturate=None),
        flows.SignThrough(saturate=None),
        lambda x: torch.where(x >= 0, 1.0, -1.0).to(x.dtype),
        as_it_comes,
        shares_memory=False,
        complex_too=False,
    ),
    Flow(
        "argmax",
        lambda x: flows.argmax_through(x, temperature=0.5),
        flows.ArgmaxThrough(temperature=0.5),
        one_hot,
        softmax_gradient,
        shares_memory=False,
        complex_too=False,
    ),
    Flow(  # probabilities of 0 and 1 only, so that it has one value
        "bernoulli",
        lambda x: flows.bernoulli_through(flows.straight_through(x > 0, x)),
        nn.Sequential(flows.StraightThrough(lambda x: x > 0, same), flows.BernoulliThrough()),
        lambda x: (x > 0).to(x.dtype),
        as_it_comes,
        shares_memory=False,
        complex_too=False,
    ),
]


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found: Tensor | None, expected: Tensor, tolerance: float = 1e-12) -> None:
    found = torch.zeros_like(expected) if found is None else found  # autograd's word for a gradient that is zero
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def pulled_back(flow: Flow, x: Tensor, cotangent: Tensor) -> Tensor | None:
    y = flow.function(x)
    if not y.requires_grad:
        return None
    return torch.autograd.grad(y, x, cotangent, allow_unused=True)[0]


# --- the laws --------------------------------------------------------------------------------------------------------


def value_is_the_documented_one(flow: Flow) -> None:
    for x in (drawn(3, 4), drawn(3, 4).requires_grad_()):
        assert torch.equal(flow.function(x), flow.value(x))


def gradient_is_the_documented_one(flow: Flow) -> None:
    x, cotangent = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1)
    close(pulled_back(flow, x, cotangent), flow.gradient(x.detach(), cotangent))


def strides_do_not_matter(flow: Flow) -> None:
    for lay in (lambda t: t.mT, lambda t: t[:, ::2], lambda t: t[0].expand(3, -1), lambda t: t[:0]):
        x, cotangent = lay(drawn(4, 4)).detach().requires_grad_(), lay(drawn(4, 4, seed=1))
        assert torch.equal(flow.function(x), flow.value(x))
        close(pulled_back(flow, x, cotangent), flow.gradient(x.detach(), cotangent))


def double_backward_differentiates_the_formula(flow: Flow) -> None:
    x, cotangent, second = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1).requires_grad_(), drawn(3, 4, seed=2)
    y = flow.function(x)
    if not y.requires_grad:
        return
    (gradient,) = torch.autograd.grad(y, x, cotangent, create_graph=True)
    expected = flow.gradient(x, cotangent)
    wanted = torch.autograd.grad(expected, (x, cotangent), second, allow_unused=True)
    graph = gradient.requires_grad
    found = torch.autograd.grad(gradient, (x, cotangent), second, allow_unused=True) if graph else (None, None)
    for one, two, like in zip(found, wanted, (x, cotangent), strict=True):
        close(one, torch.zeros_like(like) if two is None else two)


def func_grad_is_the_documented_one(flow: Flow) -> None:
    x, cotangent = drawn(3, 4), drawn(3, 4, seed=1)
    close(torch.func.vjp(flow.function, x)[1](cotangent)[0], flow.gradient(x, cotangent))
    close(torch.func.grad(lambda x: (flow.function(x) * cotangent).sum())(x), flow.gradient(x, cotangent))


def jacrev_is_the_documented_one(flow: Flow) -> None:
    x = drawn(2, 3)
    rows = [flow.gradient(x, row.reshape(2, 3)) for row in torch.eye(6, dtype=torch.float64)]
    close(torch.func.jacrev(flow.function)(x), torch.stack(rows).reshape(2, 3, 2, 3))


def forward_mode_is_the_transposed_map_or_raises(flow: Flow) -> None:
    x, tangent = drawn(3, 4), drawn(3, 4, seed=1)
    if flow.linear:
        close(torch.func.jvp(flow.function, (x,), (tangent,))[1], flow.gradient(x, tangent))
        with forward_ad.dual_level():
            dual = flow.function(forward_ad.make_dual(x, tangent))
            close(forward_ad.unpack_dual(dual).tangent, flow.gradient(x, tangent))
        return
    with pytest.raises(NotImplementedError, match="no forward mode"):
        torch.func.jvp(flow.function, (x,), (tangent,))
    with pytest.raises(NotImplementedError, match="no forward mode"), forward_ad.dual_level():
        flow.function(forward_ad.make_dual(x, tangent))


def forward_over_reverse_is_the_formula_s_or_raises(flow: Flow) -> None:
    x, cotangent, tangent = drawn(3, 4), drawn(3, 4, seed=1), drawn(3, 4, seed=2)

    def through(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.func.vjp(function, x.sin())[1](cotangent * x)[0]

    def plain(x: Tensor) -> Tensor:
        return flow.gradient(x.sin(), cotangent * x)

    expected = torch.func.jvp(plain, (x,), (tangent,))[1]
    try:
        found = torch.func.jvp(through(flow.function), (x,), (tangent,))[1]
    except NotImplementedError:
        assert not flow.linear
        return
    close(found, expected)


def vmap_is_a_loop(flow: Flow) -> None:
    x, cotangent = drawn(5, 3, 4), drawn(5, 3, 4, seed=1)
    with_random = {"randomness": "different"}
    values = torch.stack([flow.value(row) for row in x])
    gradients = torch.stack([flow.gradient(row, c) for row, c in zip(x, cotangent, strict=True)])
    assert torch.equal(torch.func.vmap(flow.function, **with_random)(x), values)
    assert torch.equal(torch.func.vmap(flow.function, in_dims=1, **with_random)(x.movedim(0, 1)), values)
    each = torch.func.vmap(lambda x, c: torch.func.vjp(flow.function, x)[1](c)[0], **with_random)
    close(each(x, cotangent), gradients)
    leaf = x.clone().requires_grad_()
    y = torch.func.vmap(flow.function, **with_random)(leaf)
    if y.requires_grad:
        close(torch.autograd.grad(y, leaf, cotangent)[0], gradients)


def half_precision_keeps_its_dtype(flow: Flow) -> None:
    for dtype, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float32, 1e-6)):
        x, cotangent = drawn(3, 4).to(dtype).requires_grad_(), drawn(3, 4, seed=1).to(dtype)
        assert flow.function(x).dtype is dtype
        found = pulled_back(flow, x, cotangent)
        assert found is None or found.dtype is dtype
        expected = flow.gradient(x.detach().double(), cotangent.double())
        close(None if found is None else found.double(), expected, tolerance)


def autocast_changes_nothing(flow: Flow) -> None:
    x, cotangent = drawn(3, 4).float().requires_grad_(), drawn(3, 4, seed=1).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = flow.function(x)
    assert y.dtype is torch.float32
    found = torch.autograd.grad(y, x, cotangent)[0] if y.requires_grad else None
    close(found, flow.gradient(x.detach(), cotangent), 1e-5)


def complex_numbers_are_right_or_refused(flow: Flow) -> None:
    x = drawn(3, 4, dtype=torch.complex128).requires_grad_()
    cotangent = drawn(3, 4, seed=1, dtype=torch.complex128)
    if not flow.complex_too:
        with pytest.raises((UsageError, RuntimeError)):
            flow.function(x)
        return
    close(pulled_back(flow, x, cotangent), flow.gradient(x.detach(), cotangent))


def an_undefined_cotangent_gives_no_gradient(flow: Flow) -> None:
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
            return cotangent, None

    x, cotangent = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1)
    out = Silent.apply(x * 2, flow.function(x * 3))
    close(torch.autograd.grad(out, x, cotangent)[0], 2 * cotangent)


def a_change_in_place_is_right_or_refused(flow: Flow) -> None:
    x, cotangent = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1)
    for changed in ("result", "input"):
        before = x * 1.5
        y = flow.function(before)
        if not y.requires_grad:
            return
        try:
            (y if changed == "result" else before).mul_(2.0)
            (found,) = torch.autograd.grad(y, x, cotangent)
        except RuntimeError as error:
            assert "modified" in str(error)  # refused by autograd itself
            continue
        twice = 2 * cotangent if changed == "result" else cotangent
        close(found, 1.5 * flow.gradient(1.5 * x.detach(), twice))


def an_identity_shares_the_memory(flow: Flow) -> None:
    x = drawn(3, 4).requires_grad_() * 1
    assert (flow.function(x).data_ptr() == x.data_ptr()) == flow.shares_memory
    assert (flow.function(x.detach()).data_ptr() == x.data_ptr()) == flow.shares_memory


def compiled_to_one_graph_it_is_the_same(flow: Flow) -> None:
    torch._dynamo.reset()
    x, cotangent = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1)
    compiled = torch.compile(lambda x: flow.function(x * 1.5) * 1.0, fullgraph=True, backend="aot_eager")
    y = compiled(x)
    assert torch.equal(y, flow.value(1.5 * x.detach()))
    found = torch.autograd.grad(y, x, cotangent)[0] if y.requires_grad else None
    close(found, 1.5 * flow.gradient(1.5 * x.detach(), cotangent))


def compiled_torch_func_is_right_or_raises(flow: Flow) -> None:
    torch._dynamo.reset()
    x, cotangent = drawn(3, 4), drawn(3, 4, seed=1)
    gradient = torch.func.grad(lambda x: (flow.function(x) * cotangent).sum())
    try:
        found = torch.compile(gradient, fullgraph=True, backend="aot_eager")(x)
    except Exception:  # an honest no
        pass
    else:
        close(found, flow.gradient(x, cotangent))
    if not flow.linear:
        return

    def tangent(x: Tensor) -> Tensor:
        return torch.func.jvp(flow.function, (x,), (cotangent,))[1]

    try:
        found = torch.compile(tangent, fullgraph=True, backend="aot_eager")(x)
    except Exception:  # an honest no
        pass
    else:
        close(found, flow.gradient(x, cotangent))


def the_module_is_the_function(flow: Flow) -> None:
    x, cotangent = drawn(3, 4).requires_grad_(), drawn(3, 4, seed=1)
    for module in (flow.module, copy.deepcopy(flow.module)):
        y = module(x)
        assert torch.equal(y, flow.value(x))
        found = torch.autograd.grad(y, x, cotangent)[0] if y.requires_grad else None
        close(found, flow.gradient(x.detach(), cotangent))


def it_passes_the_check_as_a_declared_surrogate(flow: Flow) -> None:
    subject = gw.surrogate(reason="under test")(lambda x: flow.function(x))
    report = gw.check(subject, drawn(3, 4), level="standard")
    assert report.ok, report
    assert report.verdicts[0].verdict == "surrogate" or flow.name == "stop", report
    if flow.name != "bernoulli":  # two surrogates in a row, in a Sequential that is none
        assert gw.check(flow.module, drawn(3, 4), level="quick").ok


LAWS = [
    value_is_the_documented_one,
    gradient_is_the_documented_one,
    strides_do_not_matter,
    double_backward_differentiates_the_formula,
    func_grad_is_the_documented_one,
    jacrev_is_the_documented_one,
    forward_mode_is_the_transposed_map_or_raises,
    forward_over_reverse_is_the_formula_s_or_raises,
    vmap_is_a_loop,
    half_precision_keeps_its_dtype,
    autocast_changes_nothing,
    complex_numbers_are_right_or_refused,
    an_undefined_cotangent_gives_no_gradient,
    a_change_in_place_is_right_or_refused,
    an_identity_shares_the_memory,
    compiled_to_one_graph_it_is_the_same,
    compiled_torch_func_is_right_or_raises,
    the_module_is_the_function,
    it_passes_the_check_as_a_declared_surrogate,
]
laws = Laws[Flow]()
for law in LAWS:
    laws(law)


# --- every flow, every law -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_every_flow_keeps_every_law(flow: Flow) -> None:
    laws.hold(flow)


# --- planted faults: every law rejects one ---------------------------------------------------------------------------


class Wrong(torch.autograd.Function):
    """Reverses by 0.3, but in each of its parts by a little more."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return -0.31 * cotangent


class WrongForward(Wrong):
    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return -0.3 * cotangent.detach()  # and so without a second derivative

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return -0.31 * tangent


class WrongOnNothing(Wrong):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.set_materialize_grads(False)
        ctx.shape = output.shape

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> Tensor:
        return torch.ones(ctx.shape, dtype=torch.float64) if cotangent is None else -0.3 * cotangent


def as_a_flow(function: Callable[[Tensor], Tensor], **more: Any) -> Flow:
    gradient: Gradient = more.pop("gradient", lambda x, cotangent: -0.3 * cotangent)
    return Flow("planted", function, nn.Identity(), same, gradient, **more)


GRADIENT_OFF = as_a_flow(Wrong.apply)
PLANTED = {
    value_is_the_documented_one: as_a_flow(lambda x: x + 1e-9),
    double_backward_differentiates_the_formula: as_a_flow(WrongForward.apply),
    forward_mode_is_the_transposed_map_or_raises: as_a_flow(WrongForward.apply),
    forward_over_reverse_is_the_formula_s_or_raises: as_a_flow(WrongForward.apply),
    half_precision_keeps_its_dtype: as_a_flow(lambda x: x.float()),
    autocast_changes_nothing: as_a_flow(lambda x: x @ torch.eye(4, dtype=x.dtype)),
    an_undefined_cotangent_gives_no_gradient: as_a_flow(WrongOnNothing.apply),
    an_identity_shares_the_memory: as_a_flow(lambda x: x.clone()),
    it_passes_the_check_as_a_declared_surrogate: as_a_flow(same),  # it is the derivative
}


@pytest.mark.parametrize("law", LAWS, ids=[law.__name__ for law in LAWS])
def test_every_law_rejects_a_planted_fault(law: Callable[[Flow], None]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        law(PLANTED.get(law, GRADIENT_OFF))


# --- gw.check --------------------------------------------------------------------------------------------------------

DECLARED: list[Any] = [
    flows.reverse_gradient,
    flows.scale_gradient,
    flows.clip_gradient,
    flows.stop_gradient,
    flows.straight_through,
    flows.round_through,
    flows.sign_through,
    flows.argmax_through,
    flows.bernoulli_through,
    flows.ReverseGradient,
    flows.ScaleGradient,
    flows.ClipGradient,
    flows.StopGradient,
    flows.StraightThrough,
    flows.RoundThrough,
    flows.SignThrough,
    flows.ArgmaxThrough,
    flows.BernoulliThrough,
]


@pytest.mark.parametrize("subject", DECLARED, ids=[subject.__name__ for subject in DECLARED])
def test_what_is_no_derivative_is_declared_a_surrogate(subject: Any) -> None:
    assert surrogate_reason(subject)


@pytest.mark.parametrize("flow", [FLOWS[0], FLOWS[1], FLOWS[6]], ids=["reverse", "scale", "round"])
def test_inside_another_function_it_is_still_declared(flow: Flow) -> None:
    report = gw.check(lambda x: flow.function(x), drawn(3, 4), level="standard")
    assert report.ok and report.verdicts[0].verdict == "surrogate"


def test_undeclared_it_would_be_told() -> None:
    undeclared = gw.custom_gradient(lambda x: x.view_as(x), lambda grad_output: -grad_output)
    report = gw.check(undeclared, drawn(3, 4), level="standard")
    assert [finding.code for finding in report.findings] == ["GW102"]
