"""Reductions that do not say the same."""

import pytest
import torch
import torch.nn.functional as F

import gradwright as gw

ONLY = {("GW505", "reduction", "reductions consistent")}


def reduced(loss, reduction):
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean()}[reduction]


def one_too_few(prediction, target, reduction="mean"):
    loss = (prediction - target) ** 2
    return loss.sum() / (loss.numel() - 1) if reduction == "mean" else reduced(loss, reduction)


def half_a_sum(prediction, target, reduction="mean"):
    loss = (prediction - target) ** 2
    return 0.5 * loss.sum() if reduction == "sum" else reduced(loss, reduction)


def ignored(prediction, target, reduction="mean"):
    return ((prediction - target) ** 2).mean()


def by_rows(prediction, target, reduction="mean"):
    loss = (prediction - target) ** 2
    return loss.sum() / len(loss) if reduction == "mean" else reduced(loss, reduction)


class SumForMean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.reduction = "mean"

    def forward(self, prediction, target):
        loss = (prediction - target).abs()
        return loss if self.reduction == "none" else loss.sum()


@pytest.mark.parametrize("loss", [one_too_few, half_a_sum, ignored, by_rows, SumForMean()])
def test_a_reduction_that_disagrees_is_found(faults, loss):
    assert faults(loss) == ONLY


def test_the_divisor_is_told():
    assert "divides by 11, not by its 12 parts" in gw.check_loss(one_too_few).findings[0].message
    assert "divides by 4, the number of rows" in gw.check_loss(by_rows).findings[0].message


def test_weights_and_ignored_labels_divide_otherwise_and_are_right(faults):
    assert faults(torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))) == set()
    assert faults(F.cross_entropy, torch.randn(5, 3), torch.tensor([0, -100, 2, 1, -100])) == set()


def test_a_loss_of_rows_is_right(faults):
    def rows(prediction, target, reduction="mean"):
        return reduced(((prediction - target) ** 2).sum(-1), reduction)

    assert faults(rows) == set()


def test_a_reduction_that_it_does_not_know_is_not_checked():
    def two(prediction, target, reduction="mean"):
        if reduction == "none":
            raise ValueError("mean or sum")
        return reduced((prediction - target).abs(), reduction)

    report = gw.check_loss(two)
    assert report.ok and any('reduction="none"' in line.what for line in report.not_checked)
