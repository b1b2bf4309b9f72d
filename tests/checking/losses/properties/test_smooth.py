"""A slope that breaks is told, and is no fault."""

import torch
import torch.nn.functional as F

import gradwright as gw


def kinks(loss):
    return [f for f in gw.check_loss(loss).findings if f.cause == "kink"]


def test_a_kink_is_information_with_its_place():
    (finding,) = kinks(lambda p, t: F.relu((p - t).abs() - 0.5).mean())
    assert finding.severity == "info" and "|e| = 0.5" in finding.message


def test_huber_has_none_and_that_of_l1_at_0_is_not_told():
    assert not kinks(F.huber_loss) and not kinks(F.l1_loss)
    assert not kinks(lambda p, t: torch.maximum(0.3 * (t - p), 0.7 * (p - t)).mean())
