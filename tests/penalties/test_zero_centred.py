from __future__ import annotations

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.penalties import r1_penalty, r2_penalty


def test_r1_and_r2_are_half_of_gamma_times_the_square() -> None:
    real = torch.tensor([[1.0, 2.0], [3.0, 0.0]], requires_grad=True)
    assert r1_penalty(real.prod(1), wrt=real, weight=4.0, reduction="none").tolist() == [10.0, 18.0]
    assert r2_penalty(real.prod(1), wrt=real, weight=4.0, reduction="none").tolist() == [10.0, 18.0]


def test_no_grad_around_r1_changes_no_value() -> None:
    real = torch.tensor([[1.0, 2.0]], requires_grad=True)
    scores = real.prod(1, keepdim=True)
    with torch.no_grad():
        assert r1_penalty(scores, wrt=real, weight=2.0).item() == 5


def test_r2_passes_a_gradient_to_the_generator_unless_the_samples_are_detached() -> None:
    latent = torch.tensor([[1.0, 2.0]], requires_grad=True)
    fake = 2 * latent
    penalty = r2_penalty(fake.prod(1), wrt=fake, weight=2.0)  # (2 z1)^2 + (2 z2)^2
    torch.testing.assert_close(torch.autograd.grad(penalty, latent)[0], 8 * latent.detach())
    apart = fake.detach().requires_grad_()
    assert not torch.autograd.grad(r2_penalty(apart.prod(1), wrt=apart), latent, allow_unused=True)[0]


@pytest.mark.parametrize("penalty", [r1_penalty, r2_penalty], ids=lambda p: p.__name__)
def test_a_mean_in_place_of_values_per_sample_is_refused(penalty: object) -> None:
    assert callable(penalty)
    x = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(UsageError, match="a scalar; needed is one number per sample"):
        penalty(x.square().mean(), wrt=x)
    with pytest.raises(UsageError, match=r"shape \[4, 3\]; needed is one number per sample"):
        penalty(x.square(), wrt=x)
