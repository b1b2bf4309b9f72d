"""A loss that falls as the error grows."""

import pytest
import torch
import torch.nn.functional as F

import gradwright as gw

ONLY = {("GW504", "falls as the error grows", "not falling as the error grows")}


def gives_up(prediction, target):
    error = (prediction - target).abs()
    return (error * torch.exp(-error)).mean()


def biased(prediction, target):
    return ((prediction - target - 0.7) ** 2).mean()


def outer_branch_upside_down(prediction, target):
    error = (prediction - target).abs()
    return torch.where(error <= 1, 0.5 * error**2, 1.5 - error).mean()


def one_side_upside_down(prediction, target):
    error = prediction - target
    return torch.where(error > 0, error**2, -(error**2)).mean()


def without_abs(y_pred, y_true):
    return (y_pred - y_true).mean()


def hinge_beyond(scores, labels):
    margin = scores * labels
    return torch.where(margin > -5, F.relu(1 - margin), 11 + margin).mean()


@pytest.mark.parametrize(
    "loss",
    [gives_up, biased, outer_branch_upside_down, one_side_upside_down, without_abs],
    ids=lambda loss: loss.__name__,
)
def test_a_falling_branch_is_found(faults, loss):
    assert faults(loss) == ONLY


def test_a_falling_branch_of_scores_is_found(faults):
    assert faults(hinge_beyond, kind="binary margin") == ONLY


def test_where_it_falls_is_told():
    (finding,) = (f for f in gw.check_loss(one_side_upside_down).findings if f.severity == "error")
    assert "at e = 0 " in finding.message and finding.message.endswith("at e = -940.2")


def label_smoothing(logits, labels):
    return F.cross_entropy(logits, labels, label_smoothing=0.2)


def welsch(prediction, target):
    return (1 - torch.exp(-((prediction - target) ** 2))).mean()


def similarity(prediction, target):
    return 1 - F.cosine_similarity(prediction, target, dim=-1).mean()


@pytest.mark.parametrize("loss", [label_smoothing, welsch, similarity], ids=lambda loss: loss.__name__)
def test_what_stays_or_falls_only_where_it_is_right_is_right(faults, loss):
    assert faults(loss) == set()
