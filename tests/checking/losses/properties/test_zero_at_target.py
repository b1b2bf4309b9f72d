"""A loss that costs something where there is no error."""

import torch

TITLE = "zero at a perfect prediction"


def test_a_constant_is_found(faults):
    assert faults(lambda p, t: ((p - t) ** 2).mean() + 0.5) == {("GW504", "not zero at a perfect prediction", TITLE)}
    assert faults(
        lambda p, t: 0.2 + 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1), kind="binary probabilities"
    ) == {("GW504", "not zero at a perfect prediction", TITLE)}


def test_what_normalises_a_density_is_right(faults):
    assert faults(lambda p, t: -torch.distributions.Normal(p, 2.0).log_prob(t).mean()) == set()
    assert faults(lambda p, t: -torch.distributions.Laplace(p, 0.1).log_prob(t).sum()) == set()
    assert faults(lambda p, t: -torch.distributions.StudentT(4.0, p, 1.0).log_prob(t).mean()) == set()


def test_a_small_constant_under_a_root_is_right(faults):
    assert faults(lambda p, t: torch.sqrt((p - t) ** 2 + 1e-6).mean()) == set()


def test_further_arguments_may_shift_it(faults):
    x = torch.randn(6, 2)
    assert faults(torch.nn.functional.gaussian_nll_loss, x, x + 0.1, torch.full_like(x, 3.0)) == set()
