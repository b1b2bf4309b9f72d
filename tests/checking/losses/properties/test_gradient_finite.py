"""A gradient that is not finite where the value is."""

import pytest
import torch
import torch.nn.functional as F

TITLE = "gradient finite where the value is"


def rmse(prediction, target):
    return torch.sqrt(((prediction - target) ** 2).mean())


def root(prediction, target):
    return (prediction - target).abs().sqrt().mean()


def where_of_a_root(prediction, target):
    square = (prediction - target) ** 2
    return torch.where(square > 0, square.sqrt(), square).mean()


def focal(inputs, target, gamma=0.5):
    p = torch.sigmoid(inputs)
    right = p * target + (1 - p) * (1 - target)
    return (F.binary_cross_entropy_with_logits(inputs, target, reduction="none") * (1 - right) ** gamma).mean()


def clamped_too_late(p, t):
    return -(t * p.log().clamp(min=-100) + (1 - t) * (1 - p).log().clamp(min=-100)).mean()


@pytest.mark.parametrize("loss", [rmse, root, where_of_a_root, focal, clamped_too_late], ids=lambda loss: loss.__name__)
def test_a_root_or_a_logarithm_at_0_is_found(faults, loss):
    assert faults(loss) == {("GW503", "not finite", TITLE)}


def test_a_root_that_is_kept_from_0_is_right(faults):
    assert faults(lambda p, t: torch.sqrt(((p - t) ** 2).mean() + 1e-8)) == set()
    assert faults(lambda p, t: torch.linalg.vector_norm(p - t)) == set()
