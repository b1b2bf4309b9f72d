"""Straight-through estimators: exact values, gradients of another function, chance."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from gradwright.errors import UsageError
from gradwright.functions.flow.straight_through import (
    ArgmaxThrough,
    BernoulliThrough,
    RoundThrough,
    SignThrough,
    StraightThrough,
    argmax_through,
    bernoulli_through,
    round_through,
    sign_through,
    straight_through,
)


def test_the_value_is_that_of_hard_bit_for_bit() -> None:
    hard = torch.tensor([0.1, 1e-30, -0.0, math.inf, 3.0])
    soft = torch.tensor([1e8, 1e8, 1.0, math.inf, -math.inf], requires_grad=True)
    y = straight_through(hard, soft)
    assert torch.equal(y, hard) and math.copysign(1, float(y[2].detach())) == -1.0
    y.sum().backward()
    assert soft.grad is not None and soft.grad.tolist() == [1.0] * 5
    usual = soft + (hard - soft).detach()
    assert not torch.equal(usual[:2], hard[:2]) and bool(usual[4].isnan())  # what the usual formula does


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float64], ids=str)
def test_hard_may_have_any_dtype_and_the_result_has_that_of_soft(dtype: torch.dtype) -> None:
    soft = torch.tensor([0.25, 0.75], requires_grad=True)
    y = straight_through((soft > 0.5).to(dtype), soft)
    assert y.dtype is torch.float32 and y.tolist() == [0.0, 1.0]
    y.sum().backward()
    assert soft.grad is not None and soft.grad.tolist() == [1.0, 1.0]


def test_hard_gets_no_gradient() -> None:
    hard, soft = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    found = torch.autograd.grad(straight_through(hard, soft).sum(), (hard, soft), allow_unused=True)
    assert found[0] is None or not bool(found[0].any())
    assert found[1].tolist() == [1.0, 1.0]


def test_modules_make_a_pair_and_only_soft_learns() -> None:
    hard, soft = nn.Linear(3, 2), nn.Linear(3, 2)
    StraightThrough(hard, soft)(torch.ones(4, 3)).sum().backward()
    assert hard.weight.grad is None and soft.weight.grad is not None


@pytest.mark.parametrize(
    ("hard", "soft"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.ones(2), torch.ones(2, dtype=torch.int64)),
        (torch.ones(2, dtype=torch.complex64), torch.ones(2)),
        (torch.ones(2), torch.ones(2, device="meta")),
    ],
    ids=["shape", "broadcast", "integer soft", "complex hard", "device"],
)
def test_a_pair_that_does_not_fit_is_refused(hard: Tensor, soft: Tensor) -> None:
    with pytest.raises(UsageError, match="straight_through of"):
        straight_through(hard, soft)


@pytest.mark.parametrize("flow", [round_through, sign_through, argmax_through, bernoulli_through])
def test_integers_and_complex_numbers_are_refused(flow: object) -> None:
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(UsageError, match="real floating-point"):
            flow(torch.ones(2, dtype=dtype))  # type: ignore[operator]


# --- sign and argmax -------------------------------------------------------------------------------------------------


def test_a_sign_is_one_at_zero_nan_at_nan_and_saturates() -> None:
    x = torch.tensor([-math.inf, -1.5, -1.0, -0.0, 0.0, 1.0, 1.5, math.nan], requires_grad=True)
    y = sign_through(x)
    assert y[:7].tolist() == [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0] and bool(y[7].isnan())
    y.backward(torch.tensor([math.inf, 2.0, 2.0, 2.0, 2.0, 2.0, math.nan, 2.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]


def test_the_saturation_may_be_anywhere() -> None:
    x = torch.tensor([0.4, 0.6], requires_grad=True)
    SignThrough(saturate=0.5)(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dim", [0, 1, 2, -2])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_argmax_has_the_gradient_of_softmax(dim: int, temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator).requires_grad_()
    cotangent = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator)
    y = ArgmaxThrough(dim, temperature)(logits)
    assert torch.equal(y.argmax(dim), logits.argmax(dim)) and bool((y.sum(dim) == 1).all())
    (found,) = torch.autograd.grad(y, logits, cotangent)
    (expected,) = torch.autograd.grad((logits / temperature).softmax(dim), logits, cotangent)
    torch.testing.assert_close(found, expected)


def test_among_equal_logits_one_is_chosen() -> None:
    assert argmax_through(torch.zeros(5, 3)).sum(-1).tolist() == [1.0] * 5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: argmax_through(torch.ones(3), temperature=0.0),
        lambda: ArgmaxThrough(temperature=-1.0),
        lambda: argmax_through(torch.tensor(1.0)),
        lambda: sign_through(torch.ones(3), saturate=0.0),
        lambda: SignThrough(saturate=math.nan),
    ],
    ids=["cold", "cold module", "no axis", "no room", "nan"],
)
def test_wrong_options_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]


# --- chance ----------------------------------------------------------------------------------------------------------


def test_a_coin_falls_as_often_as_its_probability_says() -> None:
    torch.manual_seed(0)
    p = torch.tensor([0.0, 0.2, 0.7, 1.0]).expand(20_000, 4)
    share = bernoulli_through(p).mean(0)
    assert float((share - p[0]).abs().max()) < 0.015 and share[0] == 0 and share[3] == 1


def test_a_generator_of_the_caller_s_is_drawn_from_alone() -> None:
    p = torch.full((50,), 0.5)
    outside = torch.get_rng_state()
    first, second = (bernoulli_through(p, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(torch.get_rng_state(), outside)
    coin = BernoulliThrough(torch.Generator().manual_seed(3))
    assert torch.equal(coin(p), first) and not torch.equal(coin(p), first)


def test_the_gradient_is_unbiased_where_the_loss_is_linear_in_each_entry() -> None:
    p, rounds = torch.full((2,), 0.3, dtype=torch.float64, requires_grad=True), 20_000
    torch.manual_seed(0)
    y = bernoulli_through(p.expand(rounds, 2))
    loss = (y[:, 0] * 2 + y[:, 0] * y[:, 1]).mean()  # expected: 2 p0 + p0 p1
    (found,) = torch.autograd.grad(loss, p)
    torch.testing.assert_close(found, torch.tensor([2.3, 0.3], dtype=torch.float64), rtol=0, atol=0.02)


def test_what_is_no_probability_raises() -> None:
    with pytest.raises(RuntimeError, match="p_in >= 0"):
        bernoulli_through(torch.tensor([1.5]))


def test_a_rounded_weight_learns_an_integer() -> None:
    weight = nn.Parameter(torch.tensor(0.2))
    x = torch.arange(1.0, 5.0)
    for _ in range(30):
        (gradient,) = torch.autograd.grad((RoundThrough()(weight) * x - 3 * x).square().mean(), weight)
        weight.data -= 0.01 * gradient
    assert float(round_through(weight.detach())) == 3.0
