"""Cross entropy and Dice together."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gradwright.errors import UsageError
from gradwright.losses import cross_entropy, dice_loss
from gradwright.losses.segmentation.bce_dice import bce_dice_loss, reference

LOGITS = torch.linspace(-3, 3, 24).view(2, 3, 4)
LABELS = (torch.arange(24).view(2, 3, 4) % 5 < 2).float()
NUMBERS = torch.arange(8).view(2, 4) % 3


def test_its_terms_are_the_entropy_and_the_dice_loss() -> None:
    entropy, dice = F.binary_cross_entropy_with_logits(LOGITS, LABELS), dice_loss(LOGITS, LABELS, smooth=1.0)
    torch.testing.assert_close(bce_dice_loss(LOGITS, LABELS), entropy + dice)
    torch.testing.assert_close(bce_dice_loss(LOGITS, LABELS, bce_weight=0.3, dice_weight=0.0), 0.3 * entropy)
    entropy, dice = cross_entropy(LOGITS, NUMBERS), dice_loss(LOGITS, NUMBERS, "multiclass", smooth=1.0)
    torch.testing.assert_close(bce_dice_loss(LOGITS, NUMBERS, "multiclass"), entropy + dice)
    found = bce_dice_loss(LOGITS.softmax(1), NUMBERS, "multiclass", from_logits=False, dice_weight=0.5)
    torch.testing.assert_close(found, entropy + 0.5 * dice)


def test_the_reference_agrees() -> None:
    for options in ({}, {"smooth": 2.0, "bce_weight": 0.5, "dice_weight": 3.0}):
        torch.testing.assert_close(
            bce_dice_loss(LOGITS, LABELS, "multilabel", reduction="none", **options),
            reference(LOGITS, LABELS, **options),
        )


def test_the_entropy_of_probabilities_of_zero_is_torchs() -> None:
    """Its value, and its slope where the prediction is wrong; where it is right torch's is 0, not the logarithm's."""
    for dtype in (torch.float32, torch.float64):
        p = torch.tensor([0.0, 1.0, 0.5, 0.0, 1.0], dtype=dtype, requires_grad=True)
        t = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0], dtype=dtype)

        def loss(p: Tensor, t: Tensor = t) -> Tensor:
            return bce_dice_loss(p, t, from_logits=False, dice_weight=0.0)

        for found in (loss(p), torch.func.vmap(loss)(p[None])[0]):
            known = F.binary_cross_entropy(p, t)
            torch.testing.assert_close(found, known)
            (gradient,), (known_gradient,) = torch.autograd.grad(found, p), torch.autograd.grad(known, p)
            torch.testing.assert_close(gradient[:3], known_gradient[:3])
            torch.testing.assert_close(gradient[3:], torch.tensor([0.2, -0.2], dtype=dtype))


def test_where_no_target_belongs_to_the_class_the_entropy_is_left() -> None:
    torch.testing.assert_close(
        bce_dice_loss(LOGITS, torch.zeros_like(LOGITS)), F.binary_cross_entropy_with_logits(LOGITS, LABELS * 0)
    )


@pytest.mark.parametrize("options", [{"bce_weight": -0.1}, {"dice_weight": -1.0}], ids=str)
def test_weights_below_zero_are_refused(options) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name} is"):
        bce_dice_loss(LOGITS, LABELS, **options)
