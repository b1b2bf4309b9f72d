"""The smooth L1 loss: torch's, down to a beta of 0, and below where a square would underflow."""

import pytest
import torch
from torch.nn import functional as F

from gradwright.losses.regression.smooth_l1 import smooth_l1_loss


@pytest.mark.parametrize("beta", [0.0, 1e-6, 0.5, 1e4])
def test_value_and_gradient_are_those_of_torch_in_float64_over_all_magnitudes(beta: float) -> None:
    e = torch.cat([torch.logspace(-8, 4, 500), -torch.logspace(-8, 4, 500), torch.zeros(1)]).requires_grad_()
    found = smooth_l1_loss(e, torch.zeros_like(e), "none", beta)
    (slope,) = torch.autograd.grad(found.sum(), e)
    wide, own = e.detach().double().requires_grad_(), torch.tensor(beta).item()
    known = F.smooth_l1_loss(wide, torch.zeros_like(wide), reduction="none", beta=own)
    (true,) = torch.autograd.grad(known.sum(), wide)
    torch.testing.assert_close(found.double(), known, rtol=2e-7, atol=0)
    torch.testing.assert_close(slope.double(), true, rtol=2e-7, atol=0)


def test_small_errors_of_a_small_beta_do_not_underflow() -> None:
    e = torch.tensor([5e-31])
    assert F.smooth_l1_loss(e, torch.zeros(1), beta=1e-30).item() == 0
    assert smooth_l1_loss(e, torch.zeros(1), beta=1e-30).item() == pytest.approx(1.25e-31, rel=1e-6)
