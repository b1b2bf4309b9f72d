"""A gradient that grows with the error where it should not."""

import torch
import torch.nn.functional as F

ONLY = {("GW504", "unbounded gradient", "gradient bounded where it should be")}


def mse(prediction, target):
    return ((prediction - target) ** 2).mean()


def test_it_is_found_on_request(faults):
    assert faults(mse, bounded_gradient=True) == ONLY
    assert faults(F.huber_loss, bounded_gradient=0.5) == ONLY


def test_it_is_found_where_a_references_is_bounded(faults):
    assert faults(mse, references=[F.huber_loss]) > ONLY


def test_straight_tails_are_right_and_nobody_asks_otherwise(faults):
    assert faults(F.huber_loss, bounded_gradient=True) == faults(F.huber_loss, bounded_gradient=1.0) == set()
    assert faults(lambda p, t: torch.log1p((p - t) ** 2).mean(), bounded_gradient=True) == set()
    assert faults(mse) == set()
