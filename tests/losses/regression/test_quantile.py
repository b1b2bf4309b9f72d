"""The quantile loss: that it finds quantiles, of one level or of several."""

from typing import Any

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.losses.regression.quantile import QuantileLoss, quantile_loss, reference

_LEVELS = torch.tensor([0.1, 0.5, 0.9])
_PREDICTED = torch.zeros(4, 3)
_TARGET = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])


@pytest.mark.parametrize("q", [0.1, 0.25, 0.5, 0.9])
def test_it_is_least_at_the_quantile_of_its_level(q: float) -> None:
    targets = torch.arange(1.0, 102.0)
    losses = torch.stack([quantile_loss(x.expand(101), targets, q=q) for x in targets])
    assert targets[losses.argmin()].item() == pytest.approx(torch.quantile(targets, q).item(), abs=1)


def test_too_low_costs_q_and_too_high_the_rest_for_each_unit() -> None:
    e = torch.cat([-torch.logspace(-8, 4, 200), torch.logspace(-8, 4, 200)]).requires_grad_()
    found = quantile_loss(e, torch.zeros_like(e), "none", q=0.75)
    (slope,) = torch.autograd.grad(found.sum(), e)
    assert torch.equal(found, torch.where(e > 0, 0.25 * e, -0.75 * e).detach())
    assert torch.equal(slope, torch.where(e > 0, 0.25, -0.75))


def test_each_of_several_levels_has_a_loss_of_its_own() -> None:
    found = quantile_loss(_PREDICTED, _TARGET, "none", _LEVELS)
    for column, q in enumerate(_LEVELS.tolist()):
        assert torch.equal(found[:, column], quantile_loss(_PREDICTED[:, column], _TARGET[:, 0], "none", q))
    torch.testing.assert_close(found, reference(_PREDICTED, _TARGET, _LEVELS))
    each_its_own = _TARGET.expand(4, 3).contiguous()
    assert torch.equal(quantile_loss(_PREDICTED, each_its_own, "none", _LEVELS), found)


def test_the_mean_over_several_levels_is_over_all_predictions() -> None:
    found = quantile_loss(_PREDICTED, _TARGET, q=_LEVELS).item()
    assert found == pytest.approx(quantile_loss(_PREDICTED, _TARGET, "none", _LEVELS).mean().item())
    half = quantile_loss(_PREDICTED, _TARGET, q=_LEVELS, mask=torch.tensor([[True], [False], [False], [True]])).item()
    assert half == pytest.approx(1.0)


def test_the_modules_levels_go_with_it_and_are_no_state() -> None:
    module = QuantileLoss(q=_LEVELS).double()
    assert isinstance(module.q, torch.Tensor) and module.q.dtype is torch.float64
    assert not module.state_dict() and "q=float64[3]" in repr(module)
    assert module(_PREDICTED, _TARGET).item() == pytest.approx(quantile_loss(_PREDICTED, _TARGET, q=_LEVELS).item())


REFUSED: dict[str, dict[str, Any]] = {
    "q is no level of a quantile: 90 at [0, 2]": {"q": torch.tensor([10.0, 50.0, 90.0]) / torch.tensor([100, 100, 1])},
    "q is no level of a quantile: nan at [0, 0]": {"q": torch.tensor([torch.nan, 0.5, 0.9])},
    "q has shape [2], which does not broadcast to [4, 3]": {"q": torch.tensor([0.1, 0.9])},
    "q is int64[3]": {"q": torch.tensor([1, 0, 1])},
    "input has shape [4, 3], target [4, 1]": {"q": 0.5},
    "input has shape [4, 3], target [4]": {"target": _TARGET[:, 0]},
    "input has shape [4, 3], target [1, 1]": {"target": _TARGET[:1]},
    "target is NaN: nan at [1, 0]": {"target": torch.tensor([[0.0], [torch.nan], [0.0], [0.0]])},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_levels_and_targets_are_named(message: str) -> None:
    with pytest.raises(UsageError) as caught:
        quantile_loss(**{"input": _PREDICTED, "target": _TARGET, "q": _LEVELS, **REFUSED[message]})
    assert str(caught.value).startswith(message)
