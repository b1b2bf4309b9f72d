"""The Kullback-Leibler divergence: what a mean is divided by, targets of 0, far out, and what it refuses."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.distributions.kl import KLDivLoss, kl_div, reference

_X = torch.tensor([[0.1, 2.0, -1.0], [0.5, 0.0, 0.3]])
_LOG_P = _X.log_softmax(1)
_T = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize("reduction", ["none", "sum", "batchmean"])
def test_of_log_probabilities_it_is_torchs(reduction: str) -> None:
    torch.testing.assert_close(kl_div(_LOG_P, _T, reduction), F.kl_div(_LOG_P, _T, reduction=reduction))
    known = F.kl_div(_LOG_P, _T.log(), reduction="none", log_target=True).nan_to_num(0.0)
    torch.testing.assert_close(kl_div(_LOG_P, _T.log(), "none", log_target=True), known)


@pytest.mark.parametrize("dim", [-1, 1, 0])
def test_of_logits_a_mean_is_over_rows_and_a_batchmean_over_axis_0(dim: int) -> None:
    z, t = torch.randn(2, 2, 6).transpose(1, 2)[:, :3], torch.rand(2, 3, 2)
    each = F.kl_div(z.log_softmax(dim), t, reduction="none").sum(dim)
    torch.testing.assert_close(kl_div(z, t, "none", from_logits=True, dim=dim), each)
    torch.testing.assert_close(kl_div(z, t, from_logits=True, dim=dim), each.sum() / (12 / t.shape[dim]))
    torch.testing.assert_close(kl_div(z, t, "batchmean", from_logits=True, dim=dim), each.sum() / each.shape[0])


def test_a_batchmean_counts_the_entries_that_have_something_left() -> None:
    mask = torch.tensor([[True, False, True], [False, False, False]])
    known = F.kl_div(_LOG_P, _T, reduction="none")[mask].sum()
    torch.testing.assert_close(kl_div(_LOG_P, _T, "batchmean", mask=mask), known / 1)
    torch.testing.assert_close(kl_div(_LOG_P, _T, "mean", mask=mask), known / 2)
    torch.testing.assert_close(kl_div(_LOG_P, _T, "batchmean", mask=mask, num_items=5), known / 5)
    rows = kl_div(_X, _T, "batchmean", from_logits=True, mask=torch.tensor([False, True]))
    torch.testing.assert_close(rows, F.kl_div(_LOG_P[1:], _T[1:], reduction="batchmean"))


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("from_logits", [False, True])
def test_a_target_of_0_has_no_part_even_where_the_prediction_is_impossible(log_target: bool, from_logits: bool) -> None:
    x = torch.tensor([[0.0, -torch.inf, 0.0]], requires_grad=True)
    t = torch.tensor([[0.5, 0.0, 0.5]])
    t = (t.log() if log_target else t).requires_grad_()
    loss = kl_div(x, t, "sum", log_target, from_logits=from_logits)
    loss.backward()
    assert loss.item() == pytest.approx(0.0 if from_logits else -0.6931472, abs=1e-7)
    for tensor in (x, t):
        assert tensor.grad is not None and tensor.grad.isfinite().all()
        assert tensor.grad[0, 1] == 0


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("from_logits", [False, True])
def test_far_out_every_derivative_is_finite(from_logits: bool, order: int) -> None:
    x = torch.tensor([[1e4, -1e4, 0.0], [0.0, 1e4, -1e4]], requires_grad=True)
    found = kl_div(x, _T, from_logits=from_logits)
    for _ in range(order):
        assert found.isfinite().all()
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
    assert found.isfinite().all()


def test_gradients_of_all_magnitudes_are_those_of_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    for classes in (3, 40):
        z = torch.randn(100, classes, generator=generator) * torch.logspace(-8, 4, 100)[:, None]
        t = (3 * torch.randn(100, classes, generator=generator)).softmax(1)
        narrow, wide = [z.requires_grad_(), t.requires_grad_()], [z.detach().double(), t.detach().double()]
        for tensor in wide:
            tensor.requires_grad_()
        found = kl_div(*narrow, "none", from_logits=True)
        known = (wide[1] * (wide[1].log() - wide[0].log_softmax(1))).sum(1)
        torch.testing.assert_close(found.double(), known, rtol=2e-6, atol=3e-7)
        for mine, theirs in zip(
            torch.autograd.grad(found.sum(), narrow), torch.autograd.grad(known.sum(), wide), strict=True
        ):
            torch.testing.assert_close(mine.double(), theirs, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", float("nan"))])
def test_a_mean_of_nothing_is_what_was_asked_for(from_logits: bool, empty: str, value: float) -> None:
    x = _X.clone().requires_grad_()
    for reduction in ("mean", "batchmean"):
        mask = torch.zeros(2 if from_logits else 3, dtype=torch.bool)
        loss = kl_div(x, _T, reduction, from_logits=from_logits, mask=mask, empty=empty)
        assert loss.item() == pytest.approx(value, nan_ok=True)
        loss = kl_div(x[:0], _T[:0], reduction, from_logits=from_logits, empty=empty)
        assert loss.item() == pytest.approx(value, nan_ok=True)


def test_the_reference_and_the_module_agree() -> None:
    torch.testing.assert_close(kl_div(_LOG_P, _T, "none"), reference(_LOG_P, _T))
    torch.testing.assert_close(kl_div(_X, _T, "none", from_logits=True), reference(_LOG_P, _T).sum(1))
    module = KLDivLoss("batchmean", from_logits=True)
    assert module(_X, _T).item() == pytest.approx(reference(_LOG_P, _T).sum().item() / 2)
    assert module.plan(_X.clone().requires_grad_(), _T).backend == "numba"


REFUSED: dict[str, dict[str, Any]] = {
    "target is negative or NaN: -0.5 at [0, 1]": {"target": torch.tensor([[1.0, -0.5, 0.5], [1.0, 0.0, 0.0]])},
    "target is negative or NaN: -1 at [1, 1]": {
        "target": torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 2.0]]),
        "from_logits": True,
    },
    "target is NaN: nan at [0, 0]": {"target": torch.full((2, 3), torch.nan), "log_target": True, "from_logits": True},
    "target is NaN: nan at": {"target": torch.full((2, 3), torch.nan), "log_target": True},
    "input has shape [2, 3], target [2]": {"target": torch.ones(2)},
    "target is int64[2, 3]": {"target": torch.ones(2, 3, dtype=torch.int64)},
    "reduction is 'batch'": {"reduction": "batch"},
    "dim is 2, and input has shape [2, 3]": {"dim": 2, "from_logits": True},
    "mask has shape [3], which does not broadcast to [2]": {
        "mask": torch.ones(3, dtype=torch.bool),
        "from_logits": True,
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_can_not_be_right_is_refused(message: str) -> None:
    with pytest.raises(UsageError) as refused:
        kl_div(**{"input": _X, "target": _T, **REFUSED[message]})
    assert message in str(refused.value)


def test_its_gradient_and_values_pass_what_is_asked_of_any_loss() -> None:
    """Of kind "other": check_loss knows no kind whose target is a distribution."""
    report = gw.check_loss(KLDivLoss("batchmean", from_logits=True), _X.double(), _T.double(), kind="other")
    assert report.ok and not report.findings, str(report)
