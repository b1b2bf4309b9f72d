"""The combo loss."""

import pytest
import torch
from torch.nn import functional as F

from gradwright.errors import UsageError
from gradwright.losses import dice_loss
from gradwright.losses.segmentation.combo import ComboLoss, combo_loss, reference

LOGITS = torch.linspace(-3, 3, 24).view(2, 3, 4)
LABELS = (torch.arange(24).view(2, 3, 4) % 5 < 2).float()


def test_its_terms_are_the_entropy_and_the_dice_loss() -> None:
    entropy, dice = F.binary_cross_entropy_with_logits(LOGITS, LABELS), dice_loss(LOGITS, LABELS, smooth=1.0)
    torch.testing.assert_close(combo_loss(LOGITS, LABELS, alpha=0.2), 0.2 * 0.5 * entropy + 0.8 * dice)
    weighed = F.binary_cross_entropy_with_logits(LOGITS, LABELS, pos_weight=torch.tensor(4.0))
    torch.testing.assert_close(combo_loss(LOGITS, LABELS, alpha=1.0, beta=0.8), 0.2 * weighed)


def test_the_reference_agrees() -> None:
    for options in ({}, {"smooth": 2.0, "alpha": 0.1, "beta": 0.9}):
        torch.testing.assert_close(
            combo_loss(LOGITS, LABELS, "multilabel", reduction="none", **options), reference(LOGITS, LABELS, **options)
        )


def test_classes_are_refused_with_a_remedy() -> None:
    for called in (lambda: combo_loss(LOGITS, LABELS[:, 0].long(), "multiclass"), lambda: ComboLoss("multiclass")):
        with pytest.raises(UsageError, match="bce_dice_loss"):
            called()


@pytest.mark.parametrize("options", [{"alpha": -0.1}, {"beta": 1.5}], ids=str)
def test_shares_are_from_0_to_1(options) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name} is"):
        combo_loss(LOGITS, LABELS, **options)
