"""The log-cosh loss: neither cancelling near 0 nor overflowing far out."""

import math

import pytest
import torch

from gradwright.losses.regression.log_cosh import log_cosh_loss, reference


def test_value_and_gradient_keep_their_relative_accuracy_over_all_magnitudes() -> None:
    e = torch.cat([-torch.logspace(-8, 4, 500), torch.logspace(-8, 4, 500)]).requires_grad_()
    found = log_cosh_loss(e, torch.zeros_like(e), "none")
    (slope,) = torch.autograd.grad(found.sum(), e)
    wide = e.detach().double()
    known = [math.log1p(2 * math.sinh(x / 2) ** 2) if abs(x) < 100 else abs(x) - math.log(2) for x in wide.tolist()]
    torch.testing.assert_close(found.double(), torch.tensor(known, dtype=torch.float64), rtol=4e-7, atol=0)
    torch.testing.assert_close(slope.double(), wide.tanh(), rtol=3e-7, atol=0)


def test_the_reference_has_both_derivatives_everywhere() -> None:
    e = torch.tensor([-1e4, -1.0, 0.0, 1e-6, 0.999, 50.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(reference(e, torch.zeros_like(e)).sum(), e, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), e)
    torch.testing.assert_close(slope, e.tanh())
    torch.testing.assert_close(bend, 1 - e.detach().tanh() ** 2)


def test_the_naive_formula_overflows_where_this_does_not() -> None:
    e = torch.tensor([1e4])
    assert torch.log(torch.cosh(e)).isinf().item()
    assert log_cosh_loss(e, torch.zeros(1)).item() == pytest.approx(1e4 - math.log(2))
