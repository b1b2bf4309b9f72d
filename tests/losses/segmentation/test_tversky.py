"""The Tversky loss."""

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.losses import dice_loss
from gradwright.losses.segmentation.jaccard import jaccard_loss
from gradwright.losses.segmentation.tversky import reference, tversky_loss
from gradwright.losses.segmentation.tversky_index import Tversky, by_hand, by_torch

LOGITS = torch.linspace(-3, 3, 24).view(2, 3, 4)
LABELS = (torch.arange(24).view(2, 3, 4) % 5 < 2).float()


def test_of_one_half_and_one_it_is_dice_and_jaccard() -> None:
    for mode in ("binary", "multilabel"):
        torch.testing.assert_close(tversky_loss(LOGITS, LABELS, mode), dice_loss(LOGITS, LABELS, mode))
        torch.testing.assert_close(
            tversky_loss(LOGITS, LABELS, mode, alpha=1.0, beta=1.0), jaccard_loss(LOGITS, LABELS, mode)
        )


def test_the_reference_agrees() -> None:
    for options in ({}, {"smooth": 2.0, "alpha": 0.1, "beta": 0.4}, {"alpha": 0.0, "beta": 2.0}):
        torch.testing.assert_close(
            tversky_loss(LOGITS, LABELS, "multilabel", reduction="none", **options),
            reference(LOGITS.sigmoid(), LABELS, **options),
        )


def test_gamma_is_the_power_of_the_mean() -> None:
    known = tversky_loss(LOGITS, LABELS, "multilabel")
    torch.testing.assert_close(tversky_loss(LOGITS, LABELS, "multilabel", gamma=2.5), known**2.5)


def test_a_small_gamma_has_no_infinite_gradient_at_zero() -> None:
    p = torch.tensor([1.0, 0.0], requires_grad=True)
    value = tversky_loss(p, torch.tensor([1, 0]), from_logits=False, gamma=0.5)
    (gradient,) = torch.autograd.grad(value, p)
    assert value == 0
    assert gradient.tolist() == [0.0, 0.0]


def test_held_at_eps_value_and_gradient_are_those_of_torch() -> None:
    p = torch.tensor([0.01, 0.2], dtype=torch.float64, requires_grad=True)
    for log_loss in (False, True):

        def loss(p, log_loss=log_loss):
            return tversky_loss(p, torch.tensor([1, 0]), from_logits=False, beta=0.0, eps=1.0, log_loss=log_loss)

        assert torch.autograd.gradcheck(loss, p)
        assert torch.autograd.gradgradcheck(loss, p)


# Sums and eps with which the whole, or the index under the logarithm, is eps exactly.
AT_EPS = [((0.5, 0.25, 0.25), 1.0), ((0.25, 0.0, 0.0), 0.5), ((0.5, 0.25, 0.25), 0.5), ((0.5, 0.5, 0.0), 0.5)]


@pytest.mark.parametrize("log_loss", [False, True])
@pytest.mark.parametrize(("sums", "eps"), AT_EPS)
def test_at_eps_exactly_it_is_the_same_by_hand_and_by_torch(sums, eps, log_loss) -> None:
    of = Tversky(1.0, 1.0, 0.0, eps, log_loss)
    tensor = torch.tensor(sums, dtype=torch.float64).unsqueeze(1).requires_grad_()
    loss = by_torch(of, tensor)
    (slopes,) = torch.autograd.grad(loss.sum(), tensor)
    assert by_hand(of, *sums) == (pytest.approx(loss.item()), pytest.approx(tuple(slopes.flatten().tolist())))


@pytest.mark.parametrize("options", [{"alpha": -0.1}, {"beta": -1.0}, {"gamma": 0.0}, {"gamma": float("nan")}], ids=str)
def test_weights_below_zero_are_refused(options) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name} is"):
        tversky_loss(LOGITS, LABELS, **options)
