"""The focal Tversky loss."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gradwright.errors import UsageError
from gradwright.losses.segmentation.focal_tversky import focal_tversky_loss, reference
from gradwright.losses.segmentation.tversky import tversky_loss

LOGITS = torch.linspace(-3, 3, 24).view(2, 3, 4)
LABELS = (torch.arange(24).view(2, 3, 4) % 5 < 2).float()


def test_it_is_a_power_of_each_classs_tversky_loss() -> None:
    known = tversky_loss(LOGITS, LABELS, "multilabel", alpha=0.3, beta=0.7, reduction="none")
    for gamma in (4 / 3, 3.0, 0.5, 1.0):
        found = focal_tversky_loss(LOGITS, LABELS, "multilabel", gamma=gamma)
        torch.testing.assert_close(found, (known ** (1 / gamma)).mean())


def test_the_reference_agrees() -> None:
    for options in ({}, {"smooth": 2.0, "alpha": 0.1, "beta": 0.4, "gamma": 2.0}):
        torch.testing.assert_close(
            focal_tversky_loss(LOGITS, LABELS, "multilabel", reduction="none", **options),
            reference(LOGITS.sigmoid(), LABELS, **options),
        )


@pytest.mark.parametrize("gamma", [4 / 3, 3.0, 30.0, 0.5])
def test_the_gradient_is_finite_at_and_near_a_perfect_prediction(gamma) -> None:
    labels = torch.tensor([1.0, 0.0, 1.0])
    for dtype in (torch.float32, torch.float64):
        for far in (0.0, 1e-45, 1e-38, 1e-20, 1e-7, 0.1):
            p = (labels - (2 * labels - 1) * far).to(dtype).requires_grad_()
            value = focal_tversky_loss(p, labels, from_logits=False, gamma=gamma)
            (gradient,) = torch.autograd.grad(value, p)
            assert gradient.isfinite().all()
        for size in (20.0, 87.0, 100.0, 700.0, 1e4):
            z = ((2 * labels - 1) * size).to(dtype).requires_grad_()
            (gradient,) = torch.autograd.grad(focal_tversky_loss(z, labels, gamma=gamma), z)
            assert gradient.isfinite().all()


def test_by_torch_the_gradient_at_zero_is_zero_too() -> None:
    p = torch.tensor([1.0, 0.0], dtype=torch.float64)
    found = torch.func.grad(lambda p: focal_tversky_loss(p, torch.tensor([1, 0]), from_logits=False))(p)
    assert found.tolist() == [0.0, 0.0]


def test_both_derivatives_are_right_where_it_is_small() -> None:
    labels = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    z = ((2 * labels - 1) * 4).requires_grad_()
    assert gradcheck(lambda z: focal_tversky_loss(z, labels), z)
    assert gradgradcheck(lambda z: focal_tversky_loss(z, labels), z)


@pytest.mark.parametrize("options", [{"alpha": -0.1}, {"beta": -1.0}, {"gamma": 0.0}], ids=str)
def test_bad_options_are_refused(options) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name} is"):
        focal_tversky_loss(LOGITS, LABELS, **options)
