"""The pseudo-Huber loss: no cancellation near 0, no overflow far out."""

import pytest
import torch

from gradwright.losses.regression.pseudo_huber import pseudo_huber_loss


@pytest.mark.parametrize("delta", [1e-3, 1.0, 1e4])
def test_value_and_gradient_keep_their_relative_accuracy_over_all_magnitudes(delta: float) -> None:
    e = torch.logspace(-8, 4, 500)
    e = torch.cat([-e, e]).requires_grad_()
    found = pseudo_huber_loss(e, torch.zeros_like(e), "none", delta)
    (slope,) = torch.autograd.grad(found.sum(), e)
    wide, own = e.detach().double(), torch.tensor(delta).double()
    root = torch.sqrt(1 + (wide / own) ** 2)
    torch.testing.assert_close(found.double(), wide**2 / (1 + root), rtol=4e-7, atol=0)
    torch.testing.assert_close(slope.double(), wide / root, rtol=3e-7, atol=0)


def test_the_textbook_formula_would_be_0_where_this_is_not() -> None:
    e = torch.tensor([1e-4])
    assert (torch.sqrt(1 + e**2) - 1).item() == 0
    assert pseudo_huber_loss(e, torch.zeros(1)).item() == pytest.approx(5e-9, rel=1e-6)


@pytest.mark.parametrize("size", [1e20, 3e38])
def test_where_the_square_overflows_the_loss_does_not(size: float) -> None:
    e = torch.tensor([-size], requires_grad=True)
    loss = pseudo_huber_loss(e, torch.zeros(1))
    loss.backward()
    assert e.grad is not None
    assert (loss.item(), e.grad.item()) == (pytest.approx(size, rel=1e-6), -1.0)


def test_an_infinite_delta_leaves_a_square() -> None:
    e = torch.tensor([3.0], requires_grad=True)
    loss = pseudo_huber_loss(e, torch.zeros(1), delta=float("inf"))
    loss.backward()
    assert e.grad is not None and (loss.item(), e.grad.item()) == (4.5, 3.0)
