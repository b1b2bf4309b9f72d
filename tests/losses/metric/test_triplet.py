"""The triplet margin loss: coinciding points, far out, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.ground.torch_versions import ties
from gradwright.ground.torch_versions.ties import Ties
from gradwright.losses.metric import triplet
from gradwright.losses.metric.triplet import TripletMarginLoss, reference, triplet_margin_loss

EVERY_NORM = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


def _points(*shape: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]


def _differentiated(loss: Tensor, points: list[Tensor]) -> list[Tensor]:
    return [loss.detach(), *torch.autograd.grad(loss.sum(), points)]


@EVERY_NORM
@pytest.mark.parametrize("swap", [False, True])
def test_every_norm_has_torchs_value_and_gradients(p: float, swap: bool) -> None:
    points = _points(2, 3, 7)
    found = _differentiated(triplet_margin_loss(*points, 0.7, p, swap=swap, reduction="none"), points)
    known = _differentiated(reference(*points, margin=0.7, p=p, swap=swap), points)
    named: Any = {"margin": 0.7, "p": p, "swap": swap, "reduction": "none"}
    theirs = _differentiated(F.triplet_margin_loss(*points, **named), points)
    torch.testing.assert_close(found, known)
    torch.testing.assert_close(found, theirs)


@EVERY_NORM
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("swap", [False, True])
def test_of_points_that_coincide_the_gradient_is_finite_and_torchs(p: float, eps: float, swap: bool) -> None:
    same = torch.ones(2, 4)
    points = [same.clone().requires_grad_() for _ in range(3)]
    found = _differentiated(triplet_margin_loss(*points, p=p, eps=eps, swap=swap, reduction="none"), points)
    known = _differentiated(F.triplet_margin_loss(*points, p=p, eps=eps, swap=swap, reduction="none"), points)
    assert all(each.isfinite().all() for each in found)
    torch.testing.assert_close(found, known)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("size", [3, 40])
def test_gradients_of_all_magnitudes_are_those_of_float64(scale: float, size: int) -> None:
    points = [(scale * each.detach()).requires_grad_() for each in _points(50, size)]
    wide = [each.detach().double().requires_grad_() for each in points]
    found = _differentiated(triplet_margin_loss(*points, reduction="none"), points)
    known = _differentiated(F.triplet_margin_loss(*wide, reduction="none"), wide)
    for one, other in zip(found, known, strict=True):
        size_of = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=5e-7 * size_of)  # differences cancel


def _with_margin_just_met() -> list[Tensor]:
    """Distances 0 and 1, by whatever norm."""
    points = [torch.zeros(2, 4), torch.zeros(2, 4), torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 2)]
    return [each.requires_grad_() for each in points]


@EVERY_NORM
@pytest.mark.parametrize("swap", [False, True])
def test_where_the_margin_is_just_met_the_gradient_is_torchs(p: float, swap: bool) -> None:
    points = _with_margin_just_met()
    for create_graph in (False, True):  # by a kernel, and unfused
        found, known = (
            torch.autograd.grad(loss(*points, p=p, eps=0.0, swap=swap), points, create_graph=create_graph)
            for loss in (triplet_margin_loss, F.triplet_margin_loss)
        )
        torch.testing.assert_close(found, known)


@EVERY_NORM
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("passes", [False, True])
def test_where_the_margin_is_just_met_the_kernel_follows_either_convention(
    p: float, swap: bool, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ties, "find_ties", lambda: Ties(passes, not passes))
    monkeypatch.setitem(triplet._TRIPLET, (p == 2, swap), triplet._of(p == 2, swap))  # without kernels made before
    points = _with_margin_just_met()
    gradients = torch.autograd.grad(triplet_margin_loss(*points, p=p, eps=0.0, swap=swap), points)
    assert any(bool(each.any()) for each in gradients) is passes


def test_a_triplet_that_is_far_enough_apart_has_no_gradient() -> None:
    anchor, near = torch.zeros(1, 3, requires_grad=True), torch.zeros(1, 3)
    loss = triplet_margin_loss(anchor, near, torch.full((1, 3), 5.0))
    loss.backward()
    assert loss.item() == 0
    assert anchor.grad is not None and anchor.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    points = _points(2, 3)
    loss = triplet_margin_loss(*points, mask=torch.zeros(2, dtype=torch.bool), empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)
    loss = triplet_margin_loss(*[each[:0] for each in points], empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)


def test_a_masked_triplet_may_be_anything() -> None:
    points = _points(2, 3)
    with torch.no_grad():
        points[0][1] = torch.nan
    loss = triplet_margin_loss(*points, mask=torch.tensor([True, False]))
    loss.backward()
    assert loss.isfinite()
    assert points[0].grad is not None and points[0].grad[1].tolist() == [0.0, 0.0, 0.0]


def test_one_triplet_needs_no_batch() -> None:
    points = _points(5)
    assert triplet_margin_loss(*points, reduction="none").shape == ()
    torch.testing.assert_close(triplet_margin_loss(*points), F.triplet_margin_loss(*points))


def test_short_points_masked_and_swapped_are_a_kernel_still() -> None:
    points = _points(2, 3)
    module = TripletMarginLoss(swap=True)
    plan = module.plan(*points, mask=torch.ones(2, dtype=torch.bool))
    assert not plan.is_fallback, plan.why
    torch.testing.assert_close(module(*points), F.triplet_margin_loss(*points, swap=True))


_POINTS = dict(zip(("anchor", "positive", "negative"), torch.ones(3, 2, 4), strict=True))
REFUSED: dict[str, dict[str, Any]] = {
    "anchor has shape [2, 4], negative [4]": {"negative": torch.ones(4)},
    "anchor is int64[2, 4]": {"anchor": torch.ones(2, 4, dtype=torch.int64)},
    "margin is 0": {"margin": 0},
    "p is 0.5": {"p": 0.5},
    "p is inf": {"p": float("inf")},
    "eps is -1": {"eps": -1},
    "no points along a last axis": {name: torch.ones(2, 0) for name in _POINTS},
    "mask has shape [4], which does not broadcast to [2]": {"mask": torch.ones(4, dtype=torch.bool)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        triplet_margin_loss(**{**_POINTS, **REFUSED[message]})
    assert message in str(refused.value)


def test_its_gradient_and_values_pass_what_is_asked_of_any_loss() -> None:
    """Of kind "other": a triplet has no target."""
    anchor, positive, negative = [each.detach().double() for each in _points(3, 4)]
    report = gw.check_loss(TripletMarginLoss(), anchor, positive, negative, kind="other")
    assert report.ok and not report.findings, str(report)
