"""The binary focal loss: any gamma, far out, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.classification.binary_cross_entropy import binary_cross_entropy_with_logits
from gradwright.losses.classification.binary_focal import BinaryFocalLoss, binary_focal_loss, reference

GAMMAS = pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
_X = torch.tensor([-1.5, 0.0, 2.0])
_T = torch.tensor([1.0, 0.0, 1.0])


def _in_float64(x: Tensor, t: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Value and slope of sigmoid(-x)^gamma softplus(-x) for labels 1, of -x for labels 0."""
    sign = 2 * t - 1
    x = sign * x.double()
    wrong, right = torch.sigmoid(-x), torch.sigmoid(x)
    entropy = torch.logaddexp(torch.zeros_like(x), -x)
    return wrong**gamma * entropy, -sign * wrong**gamma * (wrong + gamma * right * entropy)


@GAMMAS
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_value_and_gradient_are_right_over_all_magnitudes(label: float, gamma: float, reduction: str) -> None:
    far = torch.logspace(-8, 4, 200)
    x = torch.cat([-far, torch.zeros(1), far]).requires_grad_()
    t = torch.full_like(x, label)
    known, slope = _in_float64(x.detach(), t, gamma)
    found = binary_focal_loss(x, t, None, gamma, reduction)
    tolerance = {"rtol": 1e-5, "atol": 1e-35}
    torch.testing.assert_close(found.double(), known if reduction == "none" else known.sum(), **tolerance)
    (found,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(found.double(), slope, **tolerance)


@pytest.mark.parametrize("label", [1e-6, 0.3, 1 - 1e-6])
def test_of_labels_between_0_and_1_it_is_right_too(label: float) -> None:
    far = torch.logspace(-8, 4, 200)
    x = torch.cat([-far, torch.zeros(1), far]).requires_grad_()
    wide = x.detach().double()
    t = torch.full_like(x, label)
    soft = t.double()
    wrong = soft * torch.sigmoid(-wide) + (1 - soft) * torch.sigmoid(wide)
    zero = torch.zeros_like(wide)
    entropy = soft * torch.logaddexp(zero, -wide) + (1 - soft) * torch.logaddexp(zero, wide)
    found = binary_focal_loss(x, t, None, 0.5, "none")
    torch.testing.assert_close(found.double(), wrong**0.5 * entropy, rtol=2e-6, atol=0)
    assert torch.autograd.grad(found.sum(), x)[0].isfinite().all()


@GAMMAS
@pytest.mark.parametrize("order", [1, 2])
def test_far_out_every_derivative_is_finite(gamma: float, order: int) -> None:
    """kornia issue 918: a NaN for gamma < 1, where the power of a probability of 0 has an infinite slope."""
    x = torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4], requires_grad=True)
    for t in (torch.zeros(5), torch.ones(5)):
        found = binary_focal_loss(x, t, gamma=gamma)
        for _ in range(order):
            assert found.isfinite().all()
            (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        assert found.isfinite().all()


def test_gamma_0_is_binary_cross_entropy() -> None:
    found = binary_focal_loss(_X, _T, alpha=None, gamma=0)
    assert found.item() == pytest.approx(binary_cross_entropy_with_logits(_X, _T).item())


def test_minus_1_is_no_alpha_as_torchvision_has_it() -> None:
    assert binary_focal_loss(_X, _T, -1) == binary_focal_loss(_X, _T, None)


def test_a_detector_divides_by_its_positives() -> None:
    found = binary_focal_loss(_X, _T, num_items=_T.sum())
    assert found.item() == pytest.approx(binary_focal_loss(_X, _T, reduction="sum").item() / 2)


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    x = _X.clone().requires_grad_()
    loss = binary_focal_loss(x, torch.full((3,), 2), ignore_index=2, empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)
    assert binary_focal_loss(x[:0], _T[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)


def test_the_reference_and_the_module_agree() -> None:
    for t in (_T, torch.tensor([0.2, 0.5, 1.0])):
        torch.testing.assert_close(binary_focal_loss(_X, t, 0.3, 1.5, "none"), reference(_X, t, 0.3, 1.5))
    assert BinaryFocalLoss(0.3, 1.5)(_X, _T).item() == pytest.approx(reference(_X, _T, 0.3, 1.5).mean().item())


REFUSED: dict[str, dict[str, Any]] = {
    "gamma is -1": {"gamma": -1.0},
    "gamma is nan": {"gamma": float("nan")},
    "gamma is inf": {"gamma": float("inf")},
    "alpha is 2": {"alpha": 2},
    "input has shape [3], target [3, 1]": {"target": _T[:, None]},
    "target is not from 0 to 1: 7 at [1]": {"target": torch.tensor([0, 7, 1])},
    "weight is negative or NaN": {"weight": -torch.ones(3)},
    "input is int64[3]": {"input": torch.ones(3, dtype=torch.int64)},
    "target is a list": {"target": [1, 0, 1]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        binary_focal_loss(**{"input": _X, "target": _T, **REFUSED[message]})
    assert message in str(refused.value)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_it_has_every_property_of_a_loss(gamma: float) -> None:
    report = gw.check_loss(BinaryFocalLoss(gamma=gamma), level="quick")
    assert report.ok and not report.findings, str(report)
