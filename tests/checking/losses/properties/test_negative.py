"""A loss below zero."""

import torch

import gradwright as gw

TITLE = "never negative"


def test_a_constant_below_zero_is_found(faults):
    assert faults(lambda p, t: ((p - t) ** 2).mean() - 0.1) == {("GW504", "negative", TITLE)}


def test_a_negated_score_is_information():
    def negated_dice(prob, target):
        return -(2 * (prob * target).sum() + 1e-6) / (prob.sum() + target.sum() + 1e-6)

    report = gw.check_loss(negated_dice)
    assert report.ok
    assert {(f.cause, f.severity) for f in report.findings if f.code == "GW504"} == {("negative", "info")}


def test_a_density_and_a_critic_may_be_negative(faults):
    assert faults(lambda p, t: -torch.distributions.Normal(p, 0.1).log_prob(t).mean()) == set()
    assert faults(lambda real, fake: fake.mean() - real.mean()) == set()
    x = torch.randn(6, 2)
    assert faults(torch.nn.functional.gaussian_nll_loss, x, x + 0.1, torch.full_like(x, 1e-3)) == set()
