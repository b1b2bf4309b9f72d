"""The focal loss of classes: any gamma, near certainty, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.classification.focal import FocalLoss, focal_loss, reference

GAMMAS = pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
_Z = torch.tensor([[1.0, -0.5, 2.0], [0.0, 0.3, 0.1]])
_Y = torch.tensor([2, 0])


def _in_float64(z: Tensor, y: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Value and gradient of every row, with 1 - p and -log p out of the other classes' exponentials."""
    z = z.double()
    own = F.one_hot(y, z.shape[1]).bool()
    e = (z - z.amax(1, keepdim=True)).exp()
    others, total = e.masked_fill(own, 0).sum(1), e.sum(1)
    x = z[own] - z.masked_fill(own, -torch.inf).logsumexp(1)
    q = others / (others + e[own])
    u = torch.logaddexp(torch.zeros_like(x), -x)
    ratio = torch.where(q > 0, u / q.clamp_min(1e-300), 1.0)
    slope = q**gamma * (1 + gamma * (1 - q) * ratio)
    return q**gamma * u, slope[:, None] * torch.where(own, -q[:, None], e / total[:, None])


@GAMMAS
@pytest.mark.parametrize("classes", [2, 40])
def test_value_and_gradient_are_right_over_all_magnitudes(gamma: float, classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scale = torch.logspace(-8, 2.5, 300)[:, None]
    y = torch.randint(0, classes, (300,), generator=generator)
    z = torch.randn(300, classes, generator=generator) * scale
    sure = scale * F.one_hot(y, classes)
    z, y = torch.cat([z, sure]).requires_grad_(), torch.cat([y, y])
    known, slope = _in_float64(z.detach(), y, gamma)
    found = focal_loss(z, y, gamma=gamma, reduction="none")
    tolerance = {"rtol": 2e-5, "atol": 1e-35}  # of exp(x) in float32, |x| up to 87
    torch.testing.assert_close(found.double(), known, **tolerance)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), z)[0].double(), slope, **tolerance)


@GAMMAS
@pytest.mark.parametrize("order", [1, 2])
def test_far_out_every_derivative_is_finite(gamma: float, order: int) -> None:
    """kornia issue 918: a NaN for gamma < 1, where the power of 1 - p = 0 has an infinite slope."""
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [20.0, -20.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    y = torch.zeros(4, dtype=torch.int64)
    found = focal_loss(z, y, gamma=gamma, reduction="sum")
    for _ in range(order):
        assert found.isfinite().all()
        (found,) = torch.autograd.grad(found.sum(), z, create_graph=True)
    assert found.isfinite().all()


def test_certainty_in_the_wrong_class_has_the_slope_of_cross_entropy() -> None:
    z = torch.tensor([[-1e4, 1e4]], requires_grad=True)
    loss = focal_loss(z, torch.tensor([0]), gamma=2.0)
    loss.backward()
    assert loss.item() == 2e4
    assert z.grad is not None and z.grad.tolist() == [[-1.0, 1.0]]


def test_a_class_that_is_impossible_costs_nothing() -> None:
    z = torch.tensor([[1.0, -torch.inf, 0.5]], requires_grad=True)
    loss = focal_loss(z, torch.tensor([0]), gamma=0.5)
    loss.backward()
    known = focal_loss(torch.tensor([[1.0, 0.5]]), torch.tensor([0]), gamma=0.5)
    assert loss.item() == pytest.approx(known.item())
    assert z.grad is not None and z.grad[0, 1] == 0 and z.grad.isfinite().all()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_gamma_0_is_cross_entropy(reduction: str) -> None:
    torch.testing.assert_close(
        focal_loss(_Z, _Y, gamma=0, reduction=reduction), F.cross_entropy(_Z, _Y, reduction=reduction)
    )


def test_alpha_is_a_factor_of_the_loss_not_of_the_count() -> None:
    alpha = torch.tensor([0.5, 1.0, 3.0])
    each = focal_loss(_Z, _Y, reduction="none")
    assert focal_loss(_Z, _Y, alpha).item() == pytest.approx((each * alpha[_Y]).mean().item())


def test_an_alpha_that_learns_has_a_gradient() -> None:
    alpha = torch.ones(3, requires_grad=True)
    focal_loss(_Z, _Y, alpha, reduction="sum").backward()
    each = focal_loss(_Z, _Y, reduction="none")
    assert alpha.grad is not None
    torch.testing.assert_close(alpha.grad, torch.tensor([each[1].item(), 0.0, each[0].item()]))


@pytest.mark.parametrize("cotangent", [[1.0, 1.0], [2.0, -3.0], [0.0, 5.0]])
def test_each_rows_upstream_gradient_reaches_its_own_row(cotangent: list[float]) -> None:
    """Liger-Kernel issue 968: fused code that took one for all with reduction="none"."""
    z, other = _Z.clone().requires_grad_(), _Z.clone().requires_grad_()
    focal_loss(z, _Y, reduction="none").backward(torch.tensor(cotangent))
    (reference(other, _Y) * torch.tensor(cotangent)).sum().backward()
    torch.testing.assert_close(z.grad, other.grad)


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    """pytorch issue 70348: everything ignored."""
    z = _Z.clone().requires_grad_()
    loss = focal_loss(z, torch.full((2,), -100), empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        loss.backward()
        assert z.grad is not None and torch.equal(z.grad, torch.zeros(2, 3))
    assert focal_loss(z[:0], _Y[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)


def test_one_class_is_certain() -> None:
    z = torch.randn(4, 1, requires_grad=True)
    for loss in (
        focal_loss(z, torch.zeros(4, dtype=torch.int64)),
        reference(z, torch.zeros(4, dtype=torch.int64)).sum(),
    ):
        assert loss.item() == 0
        assert torch.autograd.grad(loss, z)[0].abs().max() == 0


def test_the_reference_and_the_module_agree() -> None:
    alpha = torch.tensor([0.5, 1.0, 3.0])
    known = reference(_Z, _Y, alpha, 1.5)
    torch.testing.assert_close(focal_loss(_Z, _Y, alpha, 1.5, "none"), known)
    module = FocalLoss(alpha, 1.5)
    assert module(_Z, _Y).item() == pytest.approx(known.mean().item())
    assert module.plan(_Z.clone().requires_grad_(), _Y).backend == "numba"


def test_few_classes_weighted_and_masked_are_a_kernel_still() -> None:
    z, y = torch.randn(2, 3, 4, 4, requires_grad=True), torch.zeros(2, 4, 4, dtype=torch.int64)
    plan = FocalLoss(torch.ones(3)).plan(z, y, mask=y == 0)
    assert not plan.is_fallback, plan.why


REFUSED: dict[str, dict[str, Any]] = {
    "gamma is -1": {"gamma": -1.0},
    "gamma is inf": {"gamma": float("inf")},
    "alpha is 0.25, and there are 3 classes": {"alpha": 0.25},
    "alpha has shape [2], and there are 3 classes": {"alpha": torch.ones(2)},
    "alpha is negative or NaN: -1 at [0]": {"alpha": -torch.ones(3)},
    "target is 3 at [1], and there are 3 classes: 0 to 2": {"target": torch.tensor([0, 3])},
    "target is float32[2]": {"target": torch.zeros(2)},
    "target has shape [3], input [2, 3]": {"target": torch.zeros(3, dtype=torch.int64)},
    "input is int64[2, 3]": {"input": torch.ones(2, 3, dtype=torch.int64)},
    "mask has shape [3]": {"mask": torch.ones(3, dtype=torch.bool)},
    "it has no classes": {"input": torch.zeros(2, 0)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        focal_loss(**{"input": _Z, "target": _Y, **REFUSED[message]})
    assert message in str(refused.value)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_it_has_every_property_of_a_loss(gamma: float) -> None:
    report = gw.check_loss(FocalLoss(gamma=gamma), level="quick")
    assert report.ok and not report.findings, str(report)
