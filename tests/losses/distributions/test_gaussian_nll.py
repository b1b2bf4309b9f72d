"""The Gaussian negative log-likelihood: over all magnitudes, below eps, variances of rows, and what it refuses."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import gradwright as gw
from gradwright.errors import UsageError
from gradwright.losses.distributions.gaussian_nll import GaussianNLLLoss, gaussian_nll_loss, reference

_X, _Y = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.0, 4.0]]), torch.tensor([[0.5, 2.0, 3.0], [0.0, 1.0, -4.0]])
_V = torch.tensor([[0.5, 1.0, 2.0], [4.0, 0.25, 1.0]])


def _slopes(value: Tensor, *inputs: Tensor) -> list[Tensor]:
    return [slope.double() for slope in torch.autograd.grad(value.sum(), inputs)]


def test_value_and_gradients_keep_their_accuracy_over_all_magnitudes() -> None:
    size = torch.logspace(-8, 4, 49)
    x, v = (each.reshape(-1).clone().requires_grad_() for each in torch.meshgrid(size, size, indexing="ij"))
    y = torch.zeros_like(x.detach())
    value = gaussian_nll_loss(x, y, v, eps=1e-9, reduction="none")
    of_x, of_v = _slopes(value, x, v)
    e, wide = x.detach().double(), v.detach().double()
    logarithm, square = wide.log() / 2, e * e / wide / 2
    # The parts of a sum may cancel: the error is that of the larger.
    for found, parts in ((value, (logarithm, square)), (of_x, (e / wide,)), (of_v, (0.5 / wide, square / wide))):
        true = logarithm + square if found is value else e / wide if found is of_x else 0.5 / wide - square / wide
        largest = torch.stack([part.abs() for part in parts]).amax(0)
        assert ((found.double() - true).abs() / largest).max().item() < 4e-7


def test_below_eps_the_value_is_that_of_eps_and_the_gradient_does_not_vanish_as_torchs() -> None:
    x = torch.tensor([0.5, 1e4, 0.0, 1.0], requires_grad=True)
    v = torch.tensor([0.0, 0.0, 1e-8, 2.0], requires_grad=True)
    found = gaussian_nll_loss(x, torch.zeros(4), v, eps=1e-3, reduction="none")
    known = F.gaussian_nll_loss(x, torch.zeros(4), v, eps=1e-3, reduction="none")
    torch.testing.assert_close(found, known)
    for ours, theirs in zip(_slopes(found, x, v), _slopes(known, x, v), strict=True):
        assert bool(theirs[:2].all())
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


def test_below_eps_second_derivatives_are_torchs_too() -> None:
    def second(loss) -> list[Tensor]:
        x, v = _X.double().requires_grad_(), _V.double().requires_grad_()
        firsts = torch.autograd.grad(loss(x, _Y.double(), v, eps=0.7), (x, v), create_graph=True)
        return list(torch.autograd.grad(sum(first.square().sum() for first in firsts), (x, v)))

    for ours, theirs in zip(second(gaussian_nll_loss), second(F.gaussian_nll_loss), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (2, 1)], ids=str)
def test_a_variance_for_each_row_is_shared_by_it(shape: tuple[int, ...]) -> None:
    v = torch.tensor([0.5, 2.0]).view(shape).requires_grad_()
    found, known = gaussian_nll_loss(_X, _Y, v), F.gaussian_nll_loss(_X, _Y, v)
    torch.testing.assert_close(found, known)
    torch.testing.assert_close(*_slopes(found, v), *_slopes(known, v), rtol=1e-6, atol=0)


@pytest.mark.parametrize("var", [2.0, 0, 1])
@pytest.mark.parametrize("full", [False, True])
def test_a_number_is_the_variance_of_all(var: float, full: bool) -> None:
    found = gaussian_nll_loss(_X, _Y, var, full)
    torch.testing.assert_close(found, F.gaussian_nll_loss(_X, _Y, torch.full_like(_X, var), full))
    torch.testing.assert_close(found, reference(_X, _Y, var, full).mean())


def test_the_reference_and_the_module_agree() -> None:
    module = GaussianNLLLoss(full=True, eps=0.3)
    each = reference(_X, _Y, _V, full=True, eps=0.3)
    torch.testing.assert_close(gaussian_nll_loss(_X, _Y, _V, True, 0.3, "none"), each)
    assert module(_X, _Y, _V).item() == pytest.approx(each.mean().item())
    v = _V.clone().requires_grad_()
    assert torch.equal(*(torch.autograd.grad(f(_X, _Y, v, eps=0.3).sum(), v)[0] > 0 for f in (
        gaussian_nll_loss, reference)))  # fmt: skip
    assert module.plan(_X, _Y, v).backend == "numba"


@pytest.mark.parametrize("var", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("error", [-1e4, 1e4])
def test_far_out_value_and_gradients_are_finite(error: float, var: float) -> None:
    x, v = torch.tensor([error], requires_grad=True), torch.tensor([var], requires_grad=True)
    value = gaussian_nll_loss(x, torch.zeros(1), v)
    assert all(bool(each.isfinite()) for each in (value, *_slopes(value, x, v)))


@pytest.mark.parametrize("empty, value", [("zero", 0.0), ("nan", math.nan)])
def test_a_mean_of_nothing_is_what_was_asked_for(empty: str, value: float) -> None:
    v = torch.full_like(_V, -1.0).requires_grad_()
    loss = gaussian_nll_loss(_X, _Y, v, mask=torch.zeros(2, 3, dtype=torch.bool), empty=empty)
    assert loss.item() == pytest.approx(value, nan_ok=True)
    assert gaussian_nll_loss(_X[:0], _Y[:0], v[:0], empty=empty).item() == pytest.approx(value, nan_ok=True)
    if empty == "zero":
        assert not _slopes(loss, v)[0].any()


def test_means_and_variances_of_bfloat16_go_with_targets_of_float32() -> None:
    x, v = _X.bfloat16().requires_grad_(), _V.bfloat16().requires_grad_()
    loss = gaussian_nll_loss(x, _Y, v)
    loss.backward()
    assert loss.dtype is torch.float32 and loss.item() == pytest.approx(gaussian_nll_loss(_X, _Y, _V).item())
    assert x.grad is not None and v.grad is not None
    assert (x.grad.dtype, v.grad.dtype) == (torch.bfloat16, torch.bfloat16)


def test_check_loss_finds_nothing_with_a_variance_of_1() -> None:
    report = gw.check_loss(lambda x, y: gaussian_nll_loss(x, y, 1.0), _X, _Y, kind="regression")
    assert report.ok and not report.findings, str(report)


REFUSED: dict[str, dict[str, Any]] = {
    "input has shape [2, 3], target [2, 1]": {"target": _Y[:, :1]},
    "input has shape [2, 3], var [3]": {"var": torch.ones(3)},
    "input has shape [2, 3], var [1, 3]": {"var": torch.ones(1, 3)},
    "input has shape [2, 3], var []": {"var": torch.tensor(1.0)},
    "var is negative or NaN: -0.5 at [1, 0]": {"var": torch.tensor([[1.0, 0.0, 1.0], [-0.5, 1.0, 1.0]])},
    "var is negative or NaN: nan at [1, 0]": {"var": torch.tensor([1.0, torch.nan])},
    "var is -1.0": {"var": -1.0},
    "var is int64[2, 3]": {"var": torch.ones(2, 3, dtype=torch.int64)},
    "target is NaN": {"target": torch.full((2, 3), torch.nan)},
    "eps is -1": {"eps": -1},
    "reduction is 'batchmean'": {"reduction": "batchmean"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(UsageError) as caught:
        gaussian_nll_loss(**{"input": _X, "target": _Y, "var": _V, **REFUSED[message]})
    assert str(caught.value).startswith(message)
