"""A loss that jumps."""

import pytest
import torch

import gradwright as gw

ONLY = {("GW504", "jumps", "continuous")}


def without_offset(prediction, target):
    error = (prediction - target).abs()
    return torch.where(error <= 1, 0.5 * error**2, error).mean()


def one_sided(prediction, target):
    error = prediction - target
    return torch.where(error < -2.5, error**2 + 3, error**2).mean()


def cut_off(prediction, target):
    square = (prediction - target) ** 2
    return (square * (square < 4)).mean()


@pytest.mark.parametrize(
    ("loss", "place"), [(without_offset, "|e| = 1,"), (one_sided, "e = -2.5,"), (cut_off, "|e| = 2,")]
)
def test_a_jump_is_found_with_its_place(faults, loss, place):
    assert faults(loss) == ONLY
    assert f"jumps at {place}" in gw.check_loss(loss).findings[0].message


def test_branches_that_meet_are_right(faults):
    def huber(prediction, target, d=1.7):
        error = (prediction - target).abs()
        return torch.where(error <= d, 0.5 * error**2, d * (error - 0.5 * d)).mean()

    def steep(prediction, target):
        return torch.tanh(50 * (prediction - target).abs()).mean()

    assert faults(huber) == faults(steep) == set()


def test_the_rounding_of_terms_that_cancel_is_no_jump():
    """Errors of both signs add up to nothing but rounding, of the size of the terms."""

    def signed_squares(prediction, target):
        error = prediction - target
        rounding = torch.where(error.abs().max() > 510, 1e-11, 0.0)
        return (error.abs() * error).mean() + rounding

    assert not [finding for finding in gw.check_loss(signed_squares).findings if finding.cause == "jumps"]


def test_a_jump_beside_a_slope_that_is_infinite_is_found():
    def rooted(prediction, target):
        error = (prediction - target).abs()
        return torch.where(error > 5e-4, error.sqrt() + 0.1, error.sqrt()).mean()

    (jump,) = [finding for finding in gw.check_loss(rooted).findings if finding.cause == "jumps"]
    assert "jumps at |e| = 0.0005," in jump.message
