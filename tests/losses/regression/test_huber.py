"""The Huber loss: faults that others' had."""

import pytest
import torch
from torch.nn import functional as F

from gradwright.losses.regression.huber import HuberLoss, huber_loss
from gradwright.losses.regression.smooth_l1 import smooth_l1_loss


@pytest.mark.parametrize("loss, other", [(huber_loss, F.huber_loss), (smooth_l1_loss, F.smooth_l1_loss)])
def test_attorch_13_the_threshold_is_on_the_size_of_the_error_not_on_its_sign(loss, other) -> None:
    """BobMcDear/attorch#13: errors below -delta were squared, and no gradient came back at all."""
    x = torch.tensor([-3.0, -1.5, -0.5, 0.0, 0.5, 1.5, 3.0], requires_grad=True)
    found = loss(x, torch.zeros(7), "none")
    torch.testing.assert_close(found, other(x, torch.zeros(7), reduction="none"))
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert slope.tolist() == [-1.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0]
    assert torch.equal(loss(-x, torch.zeros(7), "none"), found)


@pytest.mark.parametrize("delta", [0.5, 1.0, 2.5])
def test_attorch_13_on_ordinary_data_value_and_gradient_are_torchs(delta: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 64, 33, generator=generator).mul(2).requires_grad_()
    for reduction in ("none", "mean", "sum"):
        found, known = huber_loss(x, y, reduction, delta), F.huber_loss(x, y, reduction, delta)
        torch.testing.assert_close(found, known)
        ours, theirs = torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(known.sum(), x)[0]
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("first, second", [(torch.float64, torch.float32), (torch.float32, torch.float64)])
def test_pytorch_76646_the_backward_of_mixed_dtypes_gives_each_its_own(first: torch.dtype, second: torch.dtype) -> None:
    """pytorch/pytorch#76646: there HuberLoss()(float64, float32).backward() raises "Found dtype Float but ..."."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(67, 1, dtype=first, generator=generator).requires_grad_()
    y = torch.rand(67, 1, dtype=second, generator=generator).requires_grad_()
    loss = HuberLoss()(x, y)
    loss.sum().backward()
    known = F.huber_loss(x.double(), y.double())
    assert loss.dtype is torch.float64 and loss.item() == pytest.approx(known.item(), rel=1e-14)
    assert x.grad is not None and y.grad is not None
    assert (x.grad.dtype, y.grad.dtype) == (first, second)
    for mine, theirs in zip((x.grad, y.grad), torch.autograd.grad(known, (x, y)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_weight_and_mask_go_together() -> None:
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    weight, mask = torch.tensor([2.0, 1.0, 4.0]), torch.tensor([True, True, False])
    assert huber_loss(x, y, weight=weight, mask=mask).item() == pytest.approx((2 * 0.5 + 1.5) / 2)
