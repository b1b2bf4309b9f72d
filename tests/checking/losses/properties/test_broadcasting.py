"""Shapes (n, 1) and (n,) compared each with each."""

import torch
import torch.nn.functional as F

import gradwright as gw

ONLY = {("GW506", "broadcasting", "no silent broadcasting")}


def mse(prediction, target):
    return ((prediction - target) ** 2).mean()


def test_the_callers_own_shapes_are_an_error(faults):
    assert faults(mse, torch.randn(5, 1), torch.randn(5)) == ONLY


def test_it_is_an_error_where_the_loss_was_said_to_refuse(faults):
    assert faults(mse, refuses_broadcasting=True) == ONLY


def test_otherwise_it_is_information():
    (finding,) = gw.check_loss(mse).findings
    assert (finding.code, finding.severity) == ("GW506", "info")
    assert finding.evidence["value"] != finding.evidence["matched"]


def test_raising_warning_and_flattening_are_answers():
    def asserting(prediction, target):
        assert prediction.shape == target.shape
        return mse(prediction, target)

    def flattening(prediction, target):
        return mse(prediction.reshape(-1), target.reshape(-1))

    for loss in (asserting, flattening, F.mse_loss, F.binary_cross_entropy_with_logits):
        assert gw.check_loss(loss, refuses_broadcasting=True).ok
