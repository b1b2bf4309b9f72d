from __future__ import annotations

import pytest
import torch
from tests.derivatives.truth import one_hot_jacobian
from tests.penalties.loops import points, same_training, tail
from torch import nn

from gradwright.errors import CoupledBatch, UsageError
from gradwright.penalties import input_gradient_penalty


def test_losses_per_sample_of_a_classifier() -> None:
    net, x, labels = tail(4), points(), torch.tensor([0, 1, 2, 3, 0])
    losses = nn.functional.cross_entropy(net(x), labels, reduction="none")
    found = input_gradient_penalty(losses, wrt=x, reduction="none")
    expected = one_hot_jacobian(losses, x, create_graph=True).square().sum(1)
    assert same_training(found, expected, list(net.parameters()))


def test_double_backpropagation_is_its_sum_over_all_inputs() -> None:
    net, x = tail(1), points()
    losses = net(x).squeeze(1)
    (gradient,) = torch.autograd.grad(losses.sum(), x, retain_graph=True)
    torch.testing.assert_close(input_gradient_penalty(losses, wrt=x, reduction="sum"), gradient.square().sum())


def test_the_function_form_differentiates_what_the_inputs_were_made_from() -> None:
    latent = torch.tensor([[1.0, 2.0]], requires_grad=True)
    penalty = input_gradient_penalty(lambda x: x.square().sum(1), wrt=3 * latent)  # |2 x|^2 = 36 |latent|^2
    assert penalty.item() == 180
    torch.testing.assert_close(torch.autograd.grad(penalty, latent)[0], 72 * latent.detach())


def test_contrastive_losses_meet_and_are_refused() -> None:
    net, x = tail(4), points()
    z = nn.functional.normalize(net(x), dim=1)
    losses = nn.functional.cross_entropy(z @ z.T, torch.arange(5), reduction="none")
    with pytest.raises(CoupledBatch):
        input_gradient_penalty(losses, wrt=x)


def test_a_mean_in_place_of_losses_per_sample_is_refused() -> None:
    x = points()
    with pytest.raises(UsageError, match=r"losses: a scalar; needed is one number per sample(.|\n)*reduction='none'"):
        input_gradient_penalty(x.square().mean(), wrt=x)
    with pytest.raises(UsageError, match=r"losses: shape \[5, 3\]; needed is one number per sample"):
        input_gradient_penalty(x.square(), wrt=x)
