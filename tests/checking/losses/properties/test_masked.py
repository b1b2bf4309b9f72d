"""Batches of which nothing is left."""

import pytest
import torch
import torch.nn.functional as F

import gradwright as gw

ONLY = {("GW507", "nothing left", "masked and ignored batches")}


def divided_by_the_mask(prediction, target, mask):
    return ((prediction - target) ** 2 * mask).sum() / mask.sum()


def chosen_by_the_mask(prediction, target, mask):
    return ((prediction - target) ** 2)[mask].mean()


def by_an_optional_mask(prediction, target, mask=None):
    loss = (prediction - target) ** 2
    return loss.mean() if mask is None else (loss * mask).sum() / mask.sum()


def kept_rows(logits, target, ignore_index=-100):
    keep = target != ignore_index
    return F.cross_entropy(logits[keep], target[keep])


def ignores_nothing(logits, target, ignore_index=-100):
    loss = -logits.log_softmax(1).gather(1, target.clamp(min=0)[:, None])[:, 0]
    return loss.sum() / (target != ignore_index).sum().clamp(min=1)


@pytest.mark.parametrize(
    "loss",
    [divided_by_the_mask, chosen_by_the_mask, by_an_optional_mask, kept_rows, ignores_nothing],
    ids=lambda loss: loss.__name__,
)
def test_nothing_left_to_average_is_found(faults, loss):
    assert faults(loss) == ONLY


def test_a_mask_of_another_name_is_told_of(faults):
    def named(prediction, target, valid=None):
        loss = (prediction - target) ** 2
        return loss.mean() if valid is None else (loss * valid).sum() / valid.sum()

    assert faults(named) == set()
    assert faults(named, mask="valid") == ONLY


def test_masks_that_hide_where_they_are_true_are_understood(faults):
    def padded(prediction, target, padding_mask):
        kept = ~padding_mask
        return ((prediction - target) ** 2)[kept].mean()

    assert faults(padded) == ONLY


def test_a_divisor_that_is_clamped_is_right(faults):
    def clamped(prediction, target, mask):
        return ((prediction - target) ** 2 * mask).sum() / mask.sum().clamp(min=1)

    def summed(logits, target, ignore_index=-100):
        keep = target != ignore_index
        loss = F.cross_entropy(logits, target.clamp(min=0), reduction="none")
        return torch.where(keep, loss, 0.0).sum() / keep.sum().clamp(min=1)

    assert faults(clamped) == faults(summed) == set()


def test_a_nan_under_a_factor_is_information():
    def clamped(prediction, target, mask):
        return ((prediction - target) ** 2 * mask).sum() / mask.sum().clamp(min=1)

    def chosen(prediction, target, mask):
        loss = torch.where(mask > 0, (prediction - target) ** 2, 0.0)
        return loss.sum() / mask.sum().clamp(min=1)

    assert [f.severity for f in gw.check_loss(clamped).findings] == ["info"]
    assert gw.check_loss(chosen).findings == ()
