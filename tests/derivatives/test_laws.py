"""Laws that every derivative of the room keeps, over drawn small networks, sizes and weights (float64)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.derivatives.functions import Normalised
from torch import Tensor
from torch.nn import functional as F

from gradwright.derivatives.divergences import divergence
from gradwright.derivatives.graph.request import read_request
from gradwright.derivatives.hessian import batch_hessian, hessian_diagonal
from gradwright.derivatives.jacobian import batch_jacobian
from gradwright.derivatives.laplacians import laplacian
from gradwright.derivatives.methods.batched import BATCHED
from gradwright.derivatives.methods.double_vjp import DOUBLE_VJP
from gradwright.derivatives.methods.method import every_direction
from gradwright.derivatives.methods.pushed import PUSHED
from gradwright.derivatives.methods.sum_trick import SUM_TRICK
from gradwright.derivatives.nodes import Jet, Rule, rule_of
from gradwright.derivatives.norms import jacobian_norm
from gradwright.derivatives.per_sample.gradients import per_sample_gradients
from gradwright.derivatives.products import hvp, jvp, vjp

Draw = Callable[..., Tensor]

#: Smooth layers on [B, D], each sample by itself: the values, and numbers to be used as weights (leaves of the graph).
LAYERS: dict[str, Callable[[Tensor, Draw], Tensor]] = {
    "linear": lambda u, draw: F.linear(u, draw(3, u.shape[1]), draw(3)),
    "matrix": lambda u, draw: u @ draw(u.shape[1], 2),
    "tanh": lambda u, draw: u.tanh(),
    "sine": lambda u, draw: (u * draw(u.shape[1])).sin(),
    "softplus": lambda u, draw: F.softplus(u),
    "gate": lambda u, draw: u * F.linear(u, draw(u.shape[1], u.shape[1])).sigmoid(),
    "residual": lambda u, draw: u + F.linear(u.tanh(), draw(u.shape[1], u.shape[1])),
    "layer norm": lambda u, draw: F.layer_norm(torch.cat([u, u.square()], 1), (2 * u.shape[1],)),
    "softmax": lambda u, draw: (u * draw(1)).softmax(1),
    "outer product": lambda u, draw: (u[:, :, None] * u[:, None, :2]).flatten(1),
    "ratio": lambda u, draw: u / (1 + u.square().sum(1, keepdim=True)),
    "slices": lambda u, draw: torch.cat([u[:, 1:], u[:, :1] ** 3], 1),
    "convolution": lambda u, draw: F.conv1d(u[:, None], draw(2, 1, 3), draw(2), padding=1).tanh().mean(1),
}


@dataclass(frozen=True)
class Network:
    """A composition of layers whose weights are the same at every call."""

    layers: tuple[str, ...]
    seed: int

    @cached_property
    def weights(self) -> dict[int, Tensor]:
        return {}

    def __call__(self, z: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        made = 0

        def draw(*shape: int) -> Tensor:
            nonlocal made
            made += 1
            if made not in self.weights:
                self.weights[made] = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            return self.weights[made]

        for name in self.layers:
            z = LAYERS[name](z, draw)
        return z


@dataclass(frozen=True)
class Case:
    net: Network
    z: Tensor

    @cached_property
    def y(self) -> Tensor:
        return self.net(self.z)

    @cached_property
    def value(self) -> Tensor:
        """One value per sample, not linear in any entry of y."""
        return (self.y.square() + self.y).sum(1)

    def random(self, like: Tensor, number: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(self.net.seed + 77 + number)
        return torch.randn(like.shape, generator=generator, dtype=torch.float64)


@st.composite
def cases(draw: st.DrawFn, most: int = 3) -> Case:
    layers = draw(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=most))
    seed = draw(st.integers(0, 9999))
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    z = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return Case(Network(tuple(layers), seed), z.requires_grad_())


def law(examples: int = 25) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(max_examples=examples, deadline=None)


def assert_same(found: Tensor, right: Tensor) -> None:
    size = max(1.0, float(right.detach().abs().max())) if right.numel() else 1.0
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-10 * size)


@given(cases())
@law()
def test_the_jvp_is_the_transposed_vjp(case):
    cotangent, tangent = case.random(case.y), case.random(case.z)
    forward = (cotangent * jvp(case.y, case.z, tangent)).sum()
    backward = (vjp(case.y, case.z, cotangent) * tangent).sum()
    assert_same(forward, backward)


@given(cases())
@law()
def test_products_are_linear(case):
    first, second = case.random(case.y), case.random(case.y, 1)
    assert_same(
        vjp(case.y, case.z, 2 * first - 3 * second),
        2 * vjp(case.y, case.z, first) - 3 * vjp(case.y, case.z, second),
    )
    one, other = case.random(case.z), case.random(case.z, 1)
    assert_same(jvp(case.y, case.z, 2 * one - 3 * other), 2 * jvp(case.y, case.z, one) - 3 * jvp(case.y, case.z, other))


@given(cases())
@law()
def test_products_are_those_of_the_jacobian(case):
    jacobian = batch_jacobian(case.y, case.z)
    cotangent, tangent = case.random(case.y), case.random(case.z)
    assert_same(vjp(case.y, case.z, cotangent), torch.einsum("bk,bkd->bd", cotangent, jacobian))
    assert_same(jvp(case.y, case.z, tangent), torch.einsum("bkd,bd->bk", jacobian, tangent))


@given(cases(), st.integers(1, 7))
@law()
def test_any_chunk_size_makes_the_same_jacobian(case, chunk):
    right = batch_jacobian(case.y, case.z)
    for mode in ("auto", "reverse", "forward"):
        assert_same(batch_jacobian(case.y, case.z, mode=mode, chunk_size=chunk), right)


@given(cases())
@law()
def test_every_method_that_fits_makes_the_same_jacobian(case):
    request = read_request(case.y, case.z, 0, False)
    right = SUM_TRICK.run(request, every_direction(request, "rows"), 1)
    for method in (BATCHED, DOUBLE_VJP, PUSHED):
        if method.unfit(request) is None:
            assert_same(method.run(request, every_direction(request, method.side), 2), right)


@given(cases())
@law(15)
def test_both_modes_have_the_same_second_derivatives(case):
    points = [case.z, *(case.net.weights.values() if case.y.requires_grad else ())]

    def gradients(mode: str) -> list[Tensor]:
        jacobian = batch_jacobian(case.y, case.z, mode=mode, create_graph=True)
        if not jacobian.requires_grad:
            return [torch.zeros_like(point) for point in points]
        loss = (jacobian * case.random(jacobian)).square().sum()
        return list(torch.autograd.grad(loss, points, retain_graph=True, materialize_grads=True))

    for reverse, forward in zip(gradients("reverse"), gradients("forward"), strict=True):
        assert_same(forward, reverse)


@given(cases())
@law()
def test_coupled_is_auto_where_samples_are_independent(case):
    assert_same(batch_jacobian(case.y, case.z, batch="coupled"), batch_jacobian(case.y, case.z))


@given(cases(), st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=2))
@law()
def test_the_jacobian_is_linear_in_y(case, layers):
    other = Network(tuple(layers), case.net.seed + 1)(case.z)
    other = other[:, :1] + torch.zeros_like(case.y)
    assert_same(
        batch_jacobian(2 * case.y - 3 * other, case.z),
        2 * batch_jacobian(case.y, case.z) - 3 * batch_jacobian(other, case.z),
    )


@given(cases(2), st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=2))
@law()
def test_jacobians_of_a_composition_multiply(case, layers):
    hidden = case.y
    y = Network(tuple(layers), case.net.seed + 1)(hidden)
    assert_same(batch_jacobian(y, case.z), batch_jacobian(y, hidden) @ batch_jacobian(hidden, case.z))


@given(cases(), st.randoms())
@law()
def test_permuted_samples_have_permuted_blocks(case, random):
    order = list(range(len(case.z)))
    random.shuffle(order)
    z = case.z.detach()[order].requires_grad_()
    assert_same(batch_jacobian(case.net(z), z), batch_jacobian(case.y, case.z)[order])


@given(cases(), cases())
@law()
def test_the_jacobian_of_two_batches_is_that_of_both(case, other):
    width = min(case.z.shape[1], other.z.shape[1])
    first, second = (given.z.detach()[:, :width].clone().requires_grad_() for given in (case, other))
    both = torch.cat([first, second]).detach().requires_grad_()
    net = Network(case.net.layers, case.net.seed)
    apart = [batch_jacobian(net(z), z) for z in (first, second)]
    assert_same(batch_jacobian(net(both), both), torch.cat(apart))


@given(cases())
@law()
def test_a_batch_along_another_axis_has_the_same_jacobian(case):
    right = batch_jacobian(case.y, case.z)
    z = case.z.detach().mT.contiguous().requires_grad_()
    y = case.net(z.mT)
    assert_same(batch_jacobian(y, z, batch_dim=(0, 1)), right)
    assert_same(batch_jacobian(y.mT, z, batch_dim=1), right)


@given(cases())
@law(15)
def test_a_function_has_the_jacobian_of_its_graph(case):
    assert_same(batch_jacobian(case.net, case.z), batch_jacobian(case.y, case.z))


@given(cases(2))
@law()
def test_the_hessian_is_symmetric_and_the_jacobian_of_the_gradient(case):
    hessian = batch_hessian(case.value, case.z)
    assert_same(hessian, hessian.mT)
    (gradient,) = torch.autograd.grad(case.value.sum(), case.z, create_graph=True)
    if gradient.requires_grad:
        assert_same(hessian, batch_jacobian(gradient, case.z))


@given(cases(2))
@law()
def test_the_laplacian_is_the_trace_of_the_hessian(case):
    hessian = batch_hessian(case.value, case.z)
    diagonal = hessian.diagonal(dim1=1, dim2=2)
    assert_same(hessian_diagonal(case.value, case.z), diagonal)
    assert_same(laplacian(case.value, case.z), diagonal.sum(1))


@given(cases(2))
@law()
def test_a_product_with_the_hessian_is_that_of_its_blocks(case):
    vector = case.random(case.z)
    blocks = batch_hessian(case.value, case.z)
    right = torch.einsum("bij,bj->bi", blocks, vector)
    assert_same(hvp(case.value, case.z, vector), right)
    assert_same(hvp(case.value.sum(), case.z, vector), right)


@given(cases(2))
@law()
def test_the_divergence_is_the_trace_of_the_jacobian(case):
    field = case.y[:, :1] * case.z + case.z.sin()
    jacobian = batch_jacobian(field, case.z)
    assert_same(divergence(field, case.z), jacobian.diagonal(dim1=1, dim2=2).sum(1))
    assert_same(jacobian_norm(field, case.z), jacobian.square().sum((1, 2)).sqrt())


@given(cases())
@law()
def test_gradients_of_samples_sum_to_the_plain_gradient(case):
    assume(case.y.requires_grad)
    used = list(case.net.weights.values())
    assume(used)
    plain = torch.autograd.grad(case.value.sum(), used, retain_graph=True)
    for found, right in zip(per_sample_gradients(case.value, used), plain, strict=True):
        assert found.shape == (len(case.z), *right.shape)
        assert_same(found.sum(0), right)


class Positional(torch.autograd.Function):
    """The identity; its backward takes every second row twice."""

    @staticmethod
    def forward(ctx, z):
        return z.clone()

    @staticmethod
    def backward(ctx, grad_output):
        factor = torch.ones_like(grad_output)
        factor[::2] = 2
        return factor * grad_output


def refused(law_test: Any, *given: object) -> bool:
    """Whether a law, called once, does not hold."""
    try:
        law_test.hypothesis.inner_test(*given)
    except AssertionError:
        return True
    return False


def fixed_case(*layers: str, count: int = 4) -> Case:
    z = torch.randn(count, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return Case(Network(layers, 3), z.requires_grad_())


def test_a_backward_that_hangs_on_the_place_in_the_batch_breaks_laws(monkeypatch):
    monkeypatch.setitem(LAYERS, "planted", lambda u, draw: Positional.apply(u))
    reversing = SimpleNamespace(shuffle=lambda order: order.reverse())
    for layers, broken in ((("tanh", "linear"), False), (("planted", "linear"), True)):
        case, other = fixed_case(*layers), fixed_case(*layers, count=3)
        assert refused(test_permuted_samples_have_permuted_blocks, case, reversing) == broken
        assert refused(test_the_jacobian_of_two_batches_is_that_of_both, other, case) == broken


def test_a_backward_that_is_not_linear_breaks_a_law(monkeypatch):
    monkeypatch.setitem(LAYERS, "planted", lambda u, draw: Normalised.apply(u))
    assert not refused(test_products_are_linear, fixed_case("tanh", "linear"))
    assert refused(test_products_are_linear, fixed_case("planted", "linear"))


def test_a_derivative_pushed_wrong_breaks_a_law(monkeypatch):
    def doubled(name: str) -> Rule | None:
        rule = rule_of(name)
        if name != "TanhBackward0" or rule is None or rule.push is None:
            return rule
        right = rule.push

        def push(step, jets, order):
            return {number: Jet(2 * jet.first, jet.second) for number, jet in right(step, jets, order).items()}

        return replace(rule, push=push)

    case = fixed_case("tanh", "linear")
    assert not refused(test_every_method_that_fits_makes_the_same_jacobian, case)
    monkeypatch.setattr("gradwright.derivatives.methods.pushed.rule_of", doubled)
    assert refused(test_every_method_that_fits_makes_the_same_jacobian, fixed_case("tanh", "linear"))
