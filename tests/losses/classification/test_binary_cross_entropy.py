"""Binary cross entropy: far out, near 0, of every kind of label, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.classification.binary_cross_entropy import (
    BCEWithLogitsLoss,
    binary_cross_entropy_with_logits,
    reference,
)

_X = torch.tensor([-1.5, 0.0, 2.0])
_T = torch.tensor([1.0, 0.0, 1.0])


def _over_all_magnitudes() -> Tensor:
    """Both signs, from 1e-8 to 1e4."""
    far = torch.logspace(-8, 4, 200)
    return torch.cat([-far, torch.zeros(1), far])


def _in_float64(x: Tensor, t: Tensor) -> Tensor:
    zero = torch.zeros_like(x)
    return t * torch.logaddexp(zero, -x) + (1 - t) * torch.logaddexp(zero, x)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_value_and_gradient_keep_their_relative_accuracy_over_all_magnitudes(label: float) -> None:
    x = _over_all_magnitudes().requires_grad_()
    wide = x.detach().double().requires_grad_()
    t = torch.full_like(x, label)
    found, known = binary_cross_entropy_with_logits(x, t, reduction="none"), _in_float64(wide, t.double())
    torch.testing.assert_close(found.double(), known, rtol=5e-7, atol=1e-36)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (true,) = torch.autograd.grad(known.sum(), wide)
    torch.testing.assert_close(slope.double(), true, rtol=5e-7, atol=1e-36)


def test_a_confident_prediction_that_is_right_has_a_small_loss_not_none() -> None:
    (loss,) = binary_cross_entropy_with_logits(torch.tensor([20.0]), torch.ones(1), reduction="none").tolist()
    assert loss == pytest.approx(2.0611536e-9, rel=1e-6)


@pytest.mark.parametrize("x", [-1e4, 1e4])
@pytest.mark.parametrize("label", [0, 1])
def test_far_out_value_and_gradient_are_finite(x: float, label: int) -> None:
    z = torch.tensor([x], requires_grad=True)
    loss = binary_cross_entropy_with_logits(z, torch.tensor([label]))
    loss.backward()
    is_right = (x > 0) == bool(label)
    assert loss.item() == (0.0 if is_right else 1e4)
    assert z.grad is not None
    assert z.grad.item() == (0.0 if is_right else 1.0 if x > 0 else -1.0)


def test_the_second_derivative_at_0_is_a_quarter() -> None:
    x = torch.zeros(1, requires_grad=True)
    loss = binary_cross_entropy_with_logits(x, torch.ones(1))
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    (bend,) = torch.autograd.grad(slope, x)
    assert (slope.item(), bend.item()) == (-0.5, 0.25)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float64])
def test_labels_of_any_dtype_say_the_same(dtype: torch.dtype) -> None:
    known = binary_cross_entropy_with_logits(_X, _T)
    assert binary_cross_entropy_with_logits(_X, _T.to(dtype)).item() == pytest.approx(known.item(), rel=1e-6)


def test_logits_of_bfloat16_go_with_labels_of_float32() -> None:
    x = _X.bfloat16().requires_grad_()
    loss = binary_cross_entropy_with_logits(x, _T)
    loss.backward()
    assert loss.dtype is torch.float32
    assert x.grad is not None and x.grad.dtype is torch.bfloat16


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
@pytest.mark.parametrize("how", ["masked", "ignored", "empty"])
def test_a_mean_of_nothing_is_what_was_asked_for_with_a_gradient_of_zero(how: str, empty: str, value: float) -> None:
    x = (torch.zeros(0) if how == "empty" else _X.clone()).requires_grad_()
    t = torch.full_like(x, -1.0)
    loss = binary_cross_entropy_with_logits(
        x,
        t,
        ignore_index=-1 if how == "ignored" else None,
        mask=torch.zeros_like(t, dtype=torch.bool) if how == "masked" else None,
        empty=empty,
    )
    assert loss.item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        loss.backward()
        assert x.grad is not None and torch.equal(x.grad, torch.zeros_like(x))


def test_what_does_not_count_may_be_anything() -> None:
    x, t = torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([1.0, 0.0, torch.nan])
    loss = binary_cross_entropy_with_logits(x, t, mask=torch.tensor([True, False, False]))
    assert loss.item() == pytest.approx(0.3132617)


def test_weights_and_a_mask_go_together() -> None:
    x, weight, mask = _X.clone().requires_grad_(), torch.tensor([1.0, 2.0, 4.0]), torch.tensor([False, True, True])
    loss = binary_cross_entropy_with_logits(x, _T, weight, mask=mask)
    each = weight * torch.nn.functional.binary_cross_entropy_with_logits(_X, _T, reduction="none")
    assert loss.item() == pytest.approx(each[1:].sum().item() / 2)


def test_positives_weigh_by_class() -> None:
    x, t, weight = torch.zeros(2, 3), torch.ones(2, 3), torch.tensor([1.0, 2.0, 3.0])
    loss = binary_cross_entropy_with_logits(x, t, pos_weight=weight, reduction="none")
    torch.testing.assert_close(loss, 0.6931472 * weight.expand(2, 3))


def test_under_autocast_a_mean_is_float32() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert binary_cross_entropy_with_logits(_X.bfloat16(), _T.bfloat16()).dtype is torch.float32


def test_the_reference_and_the_module_agree() -> None:
    weight = torch.tensor(2.0)
    each = reference(_X, _T, weight, 0.1)
    found = binary_cross_entropy_with_logits(_X, _T, None, "none", weight, 0.1)
    torch.testing.assert_close(found, each)
    module = BCEWithLogitsLoss(pos_weight=weight, label_smoothing=0.1)
    assert module(_X, _T).item() == pytest.approx(each.mean().item())
    assert module.plan(_X.requires_grad_(), _T).backend == "numba"


REFUSED: dict[str, dict[str, Any]] = {
    "input has shape [3], target [3, 1]": {"target": _T[:, None]},
    "target is not from 0 to 1: 1.5 at [1]": {"target": torch.tensor([1.0, 1.5, 0.0])},
    "target is not from 0 to 1: nan at [0]": {"target": torch.tensor([torch.nan, 1.0, 0.0])},
    "target is not from 0 to 1: -1 at [2]": {"target": torch.tensor([1, 0, -1])},
    "target is complex64[3]": {"target": _T.to(torch.complex64)},
    "input is int64[3]": {"input": torch.ones(3, dtype=torch.int64)},
    "weight is negative or NaN: -1 at [0]": {"weight": torch.tensor([-1.0, 1.0, 1.0])},
    "weight has shape [2], which does not broadcast to [3]": {"weight": torch.ones(2)},
    "pos_weight is negative or NaN: -2 at": {"pos_weight": torch.tensor(-2.0)},
    "pos_weight has shape [2]": {"pos_weight": torch.ones(2)},
    "pos_weight is a float": {"pos_weight": 2.0},
    "mask is float32[3]": {"mask": torch.ones(3)},
    "label_smoothing is 2": {"label_smoothing": 2},
    "reduction is 'max'": {"reduction": "max"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        binary_cross_entropy_with_logits(**{"input": _X.detach(), "target": _T, **REFUSED[message]})
    assert message in str(refused.value)


def test_it_has_every_property_of_a_loss() -> None:
    references = {"torch": torch.nn.functional.binary_cross_entropy_with_logits}
    report = gw.check_loss(binary_cross_entropy_with_logits, references=references, level="quick")
    assert report.ok and not report.findings, str(report)
