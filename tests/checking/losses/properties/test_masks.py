"""Masks that do not complement each other, with the source at hand and without."""

import pytest
import torch

import gradwright as gw

ONLY = {("GW501", "masks", "masks complement each other")}


def smooth(prediction, target, beta=0.5):
    distance = (prediction - target).abs()
    inside = (distance < beta).float()
    return torch.mean(inside * distance**2 / (2 * beta) + (1.0 - distance) * (distance - beta / 2))


def test_the_masks_are_named_as_they_stand_in_the_source(faults):
    assert faults(smooth) == ONLY
    finding = gw.check_loss(smooth).findings[0]
    assert (finding.evidence["mask"], finding.evidence["complement"]) == ("inside", "1.0 - distance")
    assert "|e|^2" in finding.why and "- 0.25" in finding.why


@pytest.mark.parametrize("d", [0.5, 1.0, 3.0])
def test_they_are_seen_in_the_values_where_there_is_no_source(faults, d):
    scope = {"torch": torch, "d": d}
    exec(
        "def hidden(p, t):\n    e = (p - t).abs()\n    near = e <= d\n"
        "    return (0.5 * e**2 * near + d * (e - 0.5 * d) * (1 - e)).mean()\n",
        scope,
    )
    assert faults(scope["hidden"]) == ONLY
    finding = gw.check_loss(scope["hidden"]).findings[0]
    assert finding.evidence["mask"] is None
    assert f"for |e| > {d:g} it is (1 - |e|)" in finding.why


def complement(prediction, target, d=1.0):
    error = (prediction - target).abs()
    near = (error <= d).float()
    far = 1 - near
    return (0.5 * error**2 * near + d * (error - 0.5 * d) * far).mean()


def two_comparisons(prediction, target, d=1.0):
    error = (prediction - target).abs()
    return (0.5 * error**2 * (error <= d) + d * (error - 0.5 * d) * (error > d)).mean()


def hinge(prediction, label):
    z = prediction * label
    return ((z < 1) * (1 - z)).mean()


@pytest.mark.parametrize("loss", [complement, two_comparisons, hinge], ids=lambda loss: loss.__name__)
def test_masks_that_complement_each_other_are_right(faults, loss):
    assert faults(loss) == set()


def test_what_only_falls_is_not_blamed_on_masks(faults):
    def falling(prediction, target):
        error = (prediction - target).abs()
        return torch.where(error <= 1, 0.5 * error**2, 1.5 - error).mean()

    assert {code for code, *_ in faults(falling)} == {"GW504"}
