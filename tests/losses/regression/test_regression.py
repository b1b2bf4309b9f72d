"""What holds for every loss of an error: far out, of nothing, of mixed dtypes, and what all refuse."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.laws import Laws
from torch import Tensor

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.common.module import Loss
from gradwright.losses.regression import barron, huber, log_cosh, pseudo_huber, quantile, smooth_l1

LOSSES: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], type[Loss], dict[str, Any]]] = {
    "huber": (huber.huber_loss, huber.reference, huber.HuberLoss, {"delta": 2.0}),
    "pseudo-huber": (pseudo_huber.pseudo_huber_loss, pseudo_huber.reference, pseudo_huber.PseudoHuberLoss,
                     {"delta": 2.0}),
    "smooth l1": (smooth_l1.smooth_l1_loss, smooth_l1.reference, smooth_l1.SmoothL1Loss, {"beta": 2.0}),
    "log-cosh": (log_cosh.log_cosh_loss, log_cosh.reference, log_cosh.LogCoshLoss, {}),
    "quantile": (quantile.quantile_loss, quantile.reference, quantile.QuantileLoss, {"q": 0.75}),
    "general robust": (barron.general_robust_loss, barron.reference, barron.GeneralRobustLoss,
                       {"alpha": 0.5, "scale": 2.0}),
}  # fmt: skip
_X = torch.tensor([0.25, -1.5, 4.0, -30.0])
_Y = torch.tensor([0.5, 1.5, -4.0, 1.0])


def _loss(name: str) -> Callable[..., Tensor]:
    loss, _, _, options = LOSSES[name]
    return partial(loss, **options)


laws = Laws[str]()


@pytest.mark.parametrize("name", LOSSES)
def test_every_law_holds(name: str) -> None:
    laws.hold(name)


@laws
def the_reference_and_the_module_agree(name: str) -> None:
    loss, reference, module, options = LOSSES[name]
    each = reference(_X.double(), _Y.double(), **options).float()
    torch.testing.assert_close(loss(_X, _Y, "none", **options), each, rtol=1e-6, atol=0)
    made = module(**options)
    assert made(_X, _Y).item() == pytest.approx(each.mean().item(), rel=1e-6)
    assert made.plan(_X.clone().requires_grad_(), _Y).backend == "numba"
    assert all(f"{option}=" in repr(made) for option in options)


@laws
def check_loss_finds_nothing(name: str) -> None:
    report = gw.check_loss(_loss(name), _X, _Y, kind="regression")
    assert report.ok and not report.findings, str(report)


@laws
def far_out_value_and_gradient_are_finite(name: str) -> None:
    for error in (-1e4, 1e4):
        x = torch.tensor([error], requires_grad=True)
        loss = _loss(name)(x, torch.zeros(1))
        (slope,) = torch.autograd.grad(loss, x)
        assert math.isfinite(loss.item()) and math.copysign(1.0, slope.item()) == math.copysign(1.0, error)


@laws
def a_perfect_prediction_costs_nothing_and_is_left_as_it_is(name: str) -> None:
    x = torch.tensor([1.5, 0.0, -1e4], requires_grad=True)
    loss = _loss(name)(x, x.detach().clone())
    (slope,) = torch.autograd.grad(loss, x)
    assert loss.item() == 0 and torch.equal(slope, torch.zeros(3))


@laws
def a_mean_of_nothing_is_what_was_asked_for(name: str) -> None:
    for nothing, mask in ((torch.zeros(0), None), (_X, torch.zeros_like(_X, dtype=torch.bool))):
        for empty, value in (("zero", 0.0), ("nan", math.nan)):
            x = nothing.clone().requires_grad_()
            loss = _loss(name)(x, torch.zeros_like(x), mask=mask, empty=empty)
            assert loss.item() == pytest.approx(value, nan_ok=True), (nothing, empty)
            if empty == "zero":
                (slope,) = torch.autograd.grad(loss, x)
                assert torch.equal(slope, torch.zeros_like(x)), nothing


@laws
def what_does_not_count_may_be_anything(name: str) -> None:
    x, y = torch.tensor([1.0, math.nan, 2.0, math.inf], requires_grad=True), torch.tensor([0.0, 0.0, math.nan, 0.0])
    loss = _loss(name)(x, y, mask=torch.tensor([True, False, False, False]), weight=torch.tensor([2.0, -1.0, 1.0, 1.0]))
    (slope,) = torch.autograd.grad(loss, x)
    assert loss.item() == pytest.approx(2 * _loss(name)(x[:1].detach(), y[:1]).item())
    assert slope[0] > 0 and torch.equal(slope[1:], torch.zeros(3))


@laws
def a_prediction_that_is_nan_makes_a_loss_that_is(name: str) -> None:
    assert math.isnan(_loss(name)(torch.tensor([math.nan, 1.0]), torch.zeros(2)).item())


@laws
def mixed_dtypes_are_promoted_and_each_gets_a_gradient_of_its_own(name: str) -> None:
    for dtypes in ((torch.bfloat16, torch.float32), (torch.float32, torch.float64)):
        x, y = _X.to(dtypes[0], copy=True).requires_grad_(), _Y.to(dtypes[1], copy=True).requires_grad_()
        loss = _loss(name)(x, y)
        loss.backward()
        assert loss.dtype is torch.promote_types(*dtypes)
        assert x.grad is not None and y.grad is not None
        assert (x.grad.dtype, y.grad.dtype) == dtypes
        torch.testing.assert_close(x.grad.double(), -y.grad.double(), rtol=4e-3, atol=0)


@laws
def ten_million_numbers_of_16_bits_have_the_mean_of_one(name: str) -> None:
    x = torch.tensor([3.0], dtype=torch.float16).expand(10_000_000)
    y = torch.zeros(1, dtype=torch.float16).expand(10_000_000)
    assert _loss(name)(x, y).item() == _loss(name)(x[:1], y[:1]).item()


REFUSED = {
    "input has shape [4], target [4, 1]": {"target": _Y[:, None]},
    "input has shape [4], target []": {"target": torch.tensor(0.0)},
    "target is NaN: nan at [2]": {"target": torch.tensor([1.0, 1.0, math.nan, 1.0])},
    "target is int64[4]": {"target": torch.ones(4, dtype=torch.int64)},
    "input is complex64[4]": {"input": _X.to(torch.complex64)},
    "input is a list": {"input": [1.0, 2.0, 3.0, 4.0]},
    "weight is negative or NaN: -1 at [0]": {"weight": torch.tensor([-1.0, 1.0, 1.0, 1.0])},
    "weight has shape [4, 1], which does not broadcast to [4]": {"weight": torch.ones(4, 1)},
    "mask is float32[4]": {"mask": torch.ones(4)},
    "mask has shape [3]": {"mask": torch.ones(3, dtype=torch.bool)},
    "reduction is 'max'": {"reduction": "max"},
    "empty is 'one'": {"empty": "one"},
    "num_items is given, and reduction is 'sum'": {"reduction": "sum", "num_items": 3},
}


@laws
def bad_input_is_named(name: str) -> None:
    for message, bad in REFUSED.items():
        said = _said_of(name, bad)
        assert said.startswith(message)
        assert "\n  do " in said


def _said_of(name: str, bad: dict[str, Any]) -> str:
    try:
        _loss(name)(**{"input": _X, "target": _Y, **bad})
    except UsageError as refusal:
        return str(refusal)
    return f"nothing, {', '.join(bad)} is taken"


OPTIONS = [
    (huber.huber_loss, huber.HuberLoss, {"delta": 0.0}, "delta is 0.0"),
    (pseudo_huber.pseudo_huber_loss, pseudo_huber.PseudoHuberLoss, {"delta": -1.0}, "delta is -1.0"),
    (smooth_l1.smooth_l1_loss, smooth_l1.SmoothL1Loss, {"beta": -1.0}, "beta is -1.0"),
    (smooth_l1.smooth_l1_loss, smooth_l1.SmoothL1Loss, {"beta": math.nan}, "beta is nan"),
    (quantile.quantile_loss, quantile.QuantileLoss, {"q": 90}, "q is 90"),
    (quantile.quantile_loss, quantile.QuantileLoss, {"q": 0.0}, "q is 0.0"),
    (barron.general_robust_loss, barron.GeneralRobustLoss, {"scale": 0.0}, "scale is 0.0"),
    (barron.general_robust_loss, barron.GeneralRobustLoss, {"alpha": math.nan}, "alpha is nan"),
    (barron.general_robust_loss, barron.GeneralRobustLoss, {"alpha": torch.ones(1)}, "alpha is float32[1]"),
]


@pytest.mark.parametrize("loss, module, option, message", OPTIONS, ids=[message for *_, message in OPTIONS])
def test_an_option_that_cannot_be_right_is_refused_by_the_loss_and_when_the_module_is_made(
    loss: Callable[..., Tensor], module: type[Loss], option: dict[str, Any], message: str
) -> None:
    for call in (lambda: loss(_X, _Y, **option), lambda: module(**option)):
        with pytest.raises(UsageError, match=message.replace("[", r"\[")):
            call()
