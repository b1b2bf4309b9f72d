"""The kind of a loss is found out by calling it; what fits none is "other"."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gradwright.checking.losses.loss import Loss
from gradwright.checking.losses.recognise import recognise


def kind_of(function):
    loss = Loss(function)
    with loss.quiet():
        return recognise(loss, None)


KINDS: dict[str, list[Any]] = {
    "regression": [F.mse_loss, lambda p, t: (p - t).abs().mean(), lambda p, t: 1 - F.cosine_similarity(p, t).mean()],
    "binary logits": [
        F.binary_cross_entropy_with_logits,
        lambda p, t: 1 - (2 * (p.sigmoid() * t).sum() + 1) / (p.sigmoid().sum() + t.sum() + 1),
    ],
    "binary probabilities": [
        F.binary_cross_entropy,
        lambda p, t: 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1),
        lambda p, t: -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean(),
    ],
    "binary margin": [F.soft_margin_loss, lambda p, y: F.relu(1 - y * p).mean()],
    "class logits": [F.cross_entropy, F.multi_margin_loss],
    "class log-probabilities": [F.nll_loss],
    "class probabilities": [lambda p, t: -torch.log(p[torch.arange(len(t)), t]).mean()],
    "other": [F.kl_div, F.poisson_nll_loss, lambda real, fake: fake.mean() - real.mean()],
}


@pytest.mark.parametrize(("kind", "loss"), [(kind, loss) for kind, losses in KINDS.items() for loss in losses])
def test_the_kind_is_read_off_the_values(kind, loss):
    assert kind_of(loss).kind == kind


def test_a_minus_forgotten_does_not_hide_the_kind():
    assert kind_of(lambda p, t: -F.binary_cross_entropy_with_logits(p, t)).kind == "binary logits"
    assert kind_of(lambda p, t: (t * (p + 1e-8).log() + (1 - t) * (1 - p + 1e-8).log()).mean()).kind == (
        "binary probabilities"
    )


def test_a_loss_of_positive_numbers_is_tried_with_such():
    found = kind_of(lambda p, t: ((torch.log1p(p) - torch.log1p(t)) ** 2).mean())
    assert found.kind == "regression" and found.positive and not found.of_error


def test_a_bare_difference_is_a_critics_unless_its_names_say_otherwise():
    def critic(fake, real):
        return (fake - real).mean()

    def difference(prediction, target):
        return (prediction - target).mean()

    assert kind_of(critic).kind == "other"
    assert kind_of(difference).kind == "regression"


def test_what_takes_nothing_that_can_be_made_up_is_none():
    assert kind_of(lambda p, t: p.no_such_method()) is None


def test_further_arguments_and_masks_are_made_up():
    assert kind_of(F.triplet_margin_loss).sample.extras
    found = kind_of(lambda p, t, mask: ((p - t) ** 2)[mask].mean())
    assert found.kind == "regression" and found.sample.mask.dtype is torch.bool
