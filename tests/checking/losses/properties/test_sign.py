"""A gradient that pushes the prediction away from its target, or is none."""

import pytest
import torch
import torch.nn.functional as F

import gradwright as gw

TITLE = "gradient towards the target"


class WrongFarOut(torch.autograd.Function):
    """Its backward is right where anybody looks."""

    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(prediction, target)
        return (prediction - target).abs().mean()

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        error = prediction - target
        return grad_output * torch.where(error.abs() > 50, -error.sign(), error.sign()) / error.numel(), None


def minus_too_many(prediction, target):
    return -((prediction - target) ** 2).mean()


def minus_forgotten_of_probabilities(p, t):
    return (t * torch.log(p + 1e-8) + (1 - t) * torch.log(1 - p + 1e-8)).mean()


def minus_forgotten_of_classes(logits, labels):
    return logits.log_softmax(1)[torch.arange(len(labels)), labels].mean()


def minus_forgotten_of_logits(logits, target):
    return -F.binary_cross_entropy_with_logits(logits, target)


@pytest.mark.parametrize(
    "loss",
    [
        WrongFarOut,
        minus_too_many,
        minus_forgotten_of_probabilities,
        minus_forgotten_of_classes,
        minus_forgotten_of_logits,
    ],
    ids=lambda loss: loss.__name__,
)
def test_a_wrong_sign_is_found(faults, loss):
    assert faults(loss) == {("GW504", "wrong sign", TITLE)}


def detached(prediction, target):
    return ((prediction.detach() - target) ** 2).mean()


def rounded(prediction, target):
    return (torch.round(10 * prediction) / 10 - target).abs().mean()


@pytest.mark.parametrize("loss", [detached, rounded], ids=lambda loss: loss.__name__)
def test_a_loss_without_a_gradient_is_found(loss):
    found = {(f.code, f.cause, f.check) for f in gw.check_loss(loss).findings if f.severity == "error"}
    assert ("GW504", "no gradient", TITLE) in found


def test_an_angle_goes_up_and_down_and_is_right(faults):
    assert faults(lambda p, t: (1 - torch.cos(p - t)).mean()) == set()


def test_a_surrogate_that_is_flat_here_and_there_is_right(faults):
    assert faults(lambda p, t: F.relu((p - t).abs() - 0.5).mean()) == set()
