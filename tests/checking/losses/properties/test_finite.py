"""A value that is not finite where it could be; what grows as an exponential does may overflow."""

import pytest
import torch

TITLE = "finite at the extremes"


def log_cosh(prediction, target):
    return torch.log(torch.cosh(prediction - target)).mean()


def naive_logits(logits, target):
    return (torch.log(1 + torch.exp(logits)) - target * logits).mean()


def naive_probabilities(p, t):
    return -(t * torch.log(p) + (1 - t) * torch.log(1 - p)).mean()


def naive_softmax(logits, target):
    scores = torch.exp(logits)
    return -(logits.gather(1, target[:, None]) - torch.log(scores.sum(1, keepdim=True))).mean()


def dice_of_nothing(p, t):
    return 1 - 2 * (p * t).sum() / (p.sum() + t.sum())


def root_of_a_square_of_a_square(prediction, target):
    return ((prediction - target) ** 6 + 1).pow(1 / 6).mean() - 1


@pytest.mark.parametrize(
    "loss",
    [log_cosh, naive_logits, naive_probabilities, naive_softmax, dice_of_nothing, root_of_a_square_of_a_square],
    ids=lambda loss: loss.__name__,
)
def test_an_overflow_or_a_logarithm_of_0_is_found(faults, loss):
    assert faults(loss) == {("GW502", "not finite", TITLE)}


def linex(prediction, target):
    return (torch.exp(prediction - target) - (prediction - target) - 1).mean()


def fourth_power(prediction, target):
    return ((prediction - target) ** 4).mean()


def likelihood(p, t):
    return -torch.log(torch.where(t > 0.5, p, 1 - p)).mean()


@pytest.mark.parametrize("loss", [linex, fourth_power, likelihood], ids=lambda loss: loss.__name__)
def test_what_is_infinite_in_truth_is_no_fault(faults, loss):
    assert faults(loss) == set()
