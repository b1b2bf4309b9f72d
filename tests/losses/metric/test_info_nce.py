"""InfoNCE: pairs that do not count, temperatures, precision, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.errors import UsageError
from gradwright.losses.metric.info_nce import InfoNCELoss, info_nce_loss, reference


def _pairs(count: int = 4, size: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, size, generator=generator), torch.randn(count, size, generator=generator)


def _clip(q: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """As CLIP's pseudocode has it: of cosines times exp of a number that learns."""
    logits = F.normalize(q, dim=1) @ F.normalize(b, dim=1).T * scale.exp()
    target = torch.arange(len(q))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def test_a_temperature_that_learns_has_its_gradient() -> None:
    q, b = _pairs()
    scale, other = torch.tensor(1.5, requires_grad=True), torch.tensor(1.5, requires_grad=True)
    info_nce_loss(q, b, temperature=(-scale).exp(), symmetric=True).backward()
    _clip(q, b, other).backward()
    torch.testing.assert_close(scale.grad, other.grad)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_pair_that_does_not_count_is_nobodys_negative(symmetric: bool, reduction: str) -> None:
    q, b = (each.requires_grad_() for each in _pairs())
    mask = torch.tensor([True, False, True, True])
    found = info_nce_loss(q, b, symmetric=symmetric, reduction=reduction, mask=mask)
    known = info_nce_loss(q[mask], b[mask], symmetric=symmetric, reduction=reduction)
    torch.testing.assert_close(found[mask] if reduction == "none" else found, known)
    for mine, theirs in zip(
        torch.autograd.grad(found.sum(), (q, b)), torch.autograd.grad(known.sum(), (q, b)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_a_pair_that_does_not_count_may_be_anything() -> None:
    q, b = _pairs()
    q[1] = torch.nan
    q.requires_grad_()
    loss = info_nce_loss(q, b, symmetric=True, mask=torch.tensor([True, False, True, True]))
    loss.backward()
    assert loss.isfinite()
    assert q.grad is not None and q.grad.isfinite().all() and q.grad[1].abs().max() == 0


@pytest.mark.parametrize("autocast", [False, True])
def test_similarities_of_bfloat16_are_computed_in_float32(autocast: bool) -> None:
    q, b = (each.bfloat16() for each in _pairs(20, 16))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = info_nce_loss(q, b)
    assert found.dtype is (torch.float32 if autocast else torch.bfloat16)
    known = info_nce_loss(q.double(), b.double()).item()
    assert found.item() == pytest.approx(known, rel=1e-6 if autocast else 2**-8)


def test_vectors_of_length_1e4_and_of_0_are_finite() -> None:
    for normalize in (False, True):
        q = torch.tensor([[1e4, 0.0], [0.0, 0.0]], requires_grad=True)
        loss = info_nce_loss(q, q.detach().flip(0), normalize=normalize)
        loss.backward()
        assert loss.isfinite()
        assert q.grad is not None and q.grad.isfinite().all()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
def test_a_mean_of_nothing_is_what_was_asked_for(symmetric: bool, empty: str, value: float) -> None:
    q, b = (each.requires_grad_() for each in _pairs())
    for loss in (
        info_nce_loss(q, b, symmetric=symmetric, mask=torch.zeros(4, dtype=torch.bool), empty=empty),
        info_nce_loss(q[:0], b[:0], symmetric=symmetric, empty=empty),
    ):
        assert loss.item() == pytest.approx(value, nan_ok=True)
        if empty == "zero":
            assert torch.autograd.grad(loss, q)[0].abs().max() == 0
    assert info_nce_loss(q[:0], b[:0], reduction="none").shape == (0,)
    assert info_nce_loss(q[:0], b[:0], b).item() == 0


def test_the_reference_and_the_module_agree() -> None:
    q, b = _pairs()
    for negatives in (None, b.flip(0), torch.randn(4, 5, 3)):
        found = info_nce_loss(q, b, negatives, 0.5, reduction="none")
        torch.testing.assert_close(found, reference(q, b, negatives, 0.5))
    module = InfoNCELoss(0.5, symmetric=True)
    assert module(q, b).item() == pytest.approx(reference(q, b, None, 0.5, symmetric=True).mean().item())
    plan = module.plan(q.requires_grad_(), b)
    assert plan.backend == "numba" and "product" in str(plan)


_Q, _B = _pairs()
REFUSED: dict[str, dict[str, Any]] = {
    "query has shape [4, 3], positive [3, 3]": {"positive": _B[:3]},
    "query is float32[3]": {"query": _Q[0], "positive": _B[0]},
    "query is int64[4, 3]": {"query": torch.ones(4, 3, dtype=torch.int64)},
    "negatives has shape [5, 2], query [4, 3]": {"negatives": torch.ones(5, 2)},
    "negatives has shape [5, 2, 3], query [4, 3]": {"negatives": torch.ones(5, 2, 3)},
    "symmetric=True, and negatives are given": {"negatives": _B, "symmetric": True},
    "temperature is 0": {"temperature": 0},
    "temperature is -1.0": {"temperature": torch.tensor(-1.0)},
    "temperature is float32[1]": {"temperature": torch.ones(1)},
    "mask has shape [3], which does not broadcast to [4]": {"mask": torch.ones(3, dtype=torch.bool)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        info_nce_loss(**{"query": _Q, "positive": _B, **REFUSED[message]})
    assert message in str(refused.value)
