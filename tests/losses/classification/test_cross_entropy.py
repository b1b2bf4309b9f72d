"""Cross entropy: issues of others, replayed, and what it refuses."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.classification.cross_entropy import CrossEntropyLoss, cross_entropy, reference

_Z = torch.tensor([[1.0, -0.5, 2.0], [0.0, 0.3, 0.1]])
_Y = torch.tensor([2, 0])


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float, weighted: bool) -> None:
    """pytorch issue 70348: NaN, where every label is ignored."""
    z = _Z.clone().requires_grad_()
    weight = torch.ones(3) if weighted else None
    loss = cross_entropy(z, torch.full((2,), -100), weight, empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        loss.backward()
        assert z.grad is not None and torch.equal(z.grad, torch.zeros(2, 3))


@pytest.mark.parametrize("cotangent", [[1.0, 1.0], [2.0, -3.0], [0.0, 5.0]])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_each_rows_upstream_gradient_reaches_its_own_row(cotangent: list[float], smoothing: float) -> None:
    """Liger-Kernel issue 968: fused code that took one for all with reduction="none"."""
    z, other = _Z.clone().requires_grad_(), _Z.clone().requires_grad_()
    upstream = torch.tensor(cotangent)
    cross_entropy(z, _Y, reduction="none", label_smoothing=smoothing).backward(upstream)
    F.cross_entropy(other, _Y, reduction="none", label_smoothing=smoothing).backward(upstream)
    torch.testing.assert_close(z.grad, other.grad)


def test_a_factor_behind_the_mean_reaches_the_gradient() -> None:
    z, other = _Z.clone().requires_grad_(), _Z.clone().requires_grad_()
    (7 * cross_entropy(z, _Y)).backward()
    (7 * F.cross_entropy(other, _Y)).backward()
    torch.testing.assert_close(z.grad, other.grad)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_far_out_value_and_gradient_are_finite(reduction: str) -> None:
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    loss = cross_entropy(z, torch.tensor([0, 0]), reduction=reduction)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert z.grad is not None and z.grad.isfinite().all()


def test_a_masked_row_may_be_anything() -> None:
    z = torch.tensor([[0.0, 0.0], [torch.nan, torch.inf]], requires_grad=True)
    loss = cross_entropy(z, torch.tensor([0, 17]), mask=torch.tensor([True, False]))
    loss.backward()
    assert loss.item() == pytest.approx(0.6931472)
    assert z.grad is not None and z.grad[1].tolist() == [0.0, 0.0]


def test_the_reference_and_the_module_agree() -> None:
    known = reference(_Z, _Y, label_smoothing=0.1)
    torch.testing.assert_close(cross_entropy(_Z, _Y, reduction="none", label_smoothing=0.1), known)
    assert CrossEntropyLoss(label_smoothing=0.1)(_Z, _Y).item() == pytest.approx(known.mean().item())


REFUSED: dict[str, dict[str, Any]] = {
    "target is 3 at [1], and there are 3 classes: 0 to 2": {"target": torch.tensor([0, 3])},
    "target is -1 at [0]": {"target": torch.tensor([-1, 0])},
    "target is bool[2]": {"target": torch.tensor([True, False])},
    "target has shape [2, 1], input [2, 3]": {"target": _Y[:, None]},
    "input has shape [2, 3], target [2, 2]": {"target": torch.ones(2, 2)},
    "target is negative or NaN: -1 at [0, 1]": {"target": torch.tensor([[2.0, -1.0, 0.0], [1.0, 0.0, 0.0]])},
    "weight is -1 at [2]": {"weight": torch.tensor([1.0, 1.0, -1.0])},
    "weight has shape [2], and there are 3 classes": {"weight": torch.ones(2)},
    "label_smoothing is 1.5": {"label_smoothing": 1.5},
    "num_items is -3": {"num_items": -3},
    "empty is 'none'": {"empty": "none"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        cross_entropy(**{"input": _Z, "target": _Y, **REFUSED[message]})
    assert message in str(refused.value)


def test_it_has_every_property_of_a_loss() -> None:
    report = gw.check_loss(cross_entropy, references={"torch": F.cross_entropy}, level="quick")
    assert report.ok and not report.findings, str(report)
