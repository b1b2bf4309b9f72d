"""How a loss is called: its signature, its precision, what comes back."""

import functools

import pytest
import torch
import torch.nn.functional as F

from gradwright.checking.losses.loss import Loss, Sample
from gradwright.checking.trial import NotJudgeable

SAMPLE = Sample(torch.tensor([1.0, 2.0, 4.0]), torch.zeros(3))


def test_what_is_not_reduced_is_averaged():
    assert Loss(lambda p, t: (p - t).abs()).value(SAMPLE) == pytest.approx(7 / 3)


def test_the_gradient_is_that_of_the_value():
    value, gradient = Loss(lambda p, t: ((p - t) ** 2).sum()).slope(SAMPLE)
    assert value == 21.0 and gradient.tolist() == [2.0, 4.0, 8.0]


def test_what_does_not_depend_on_the_prediction_has_a_gradient_of_zeros():
    weight = torch.ones((), requires_grad=True)
    assert Loss(lambda p, t: weight * t.sum()).slope(SAMPLE)[1].tolist() == [0.0, 0.0, 0.0]


def test_what_carries_no_gradient_is_not_judgeable():
    with pytest.raises(NotJudgeable, match="no gradient"):
        Loss(lambda p, t: (p.detach() - t).sum()).slope(SAMPLE)
    with pytest.raises(NotJudgeable, match="a str"):
        Loss(lambda p, t: "loss").value(SAMPLE)


def test_the_reduction_is_an_argument_or_an_attribute():
    assert Loss(F.mse_loss).reduction == "argument"
    assert Loss(functools.partial(F.mse_loss, reduction="sum")).reduction == "argument"
    module = torch.nn.MSELoss()
    assert Loss(module).raw(SAMPLE, reduction="none").shape == (3,)
    assert module.reduction == "mean"


def test_values_that_are_computed_in_float32_are_known_for_such():
    for function, fine in ((lambda p, t: ((p - t) ** 2).mean(), True), (lambda p, t: (p.float() ** 2).mean(), False)):
        loss = Loss(function)
        loss.settle(SAMPLE)
        assert loss.fine is fine


def test_a_loss_that_draws_gives_the_same_value_each_time():
    loss = Loss(lambda p, t: (p * torch.rand(3)).sum())
    with loss.quiet():
        loss.settle(SAMPLE)
        assert loss.random and loss.value(SAMPLE) == loss.value(SAMPLE)


def test_torchs_own_are_known():
    def mine(p, t):
        return F.mse_loss(p, t)

    assert Loss(torch.nn.MSELoss()).shipped and Loss(functools.partial(F.l1_loss)).shipped
    assert not Loss(mine).shipped


def test_names_that_are_the_other_way_round():
    def keras(y_true, y_pred):
        return (y_pred - 2 * y_true).sum()

    def usual(prediction, target):
        return (prediction - 2 * target).sum()

    sample = Sample(torch.tensor([5.0]), torch.tensor([1.0]))
    assert Loss(keras).value(sample) == Loss(usual).value(sample) == 3.0


def test_tensors_that_a_loss_makes_are_as_wide_as_its_arguments_and_the_default_stays():
    made = []

    def making(prediction, target):
        made.append(torch.zeros(3))
        return (prediction - made[-1]).sum()

    for dtype in (torch.float32, torch.float64):
        Loss(making).value(SAMPLE, dtype)
    assert [tensor.dtype for tensor in made] == [torch.float32, torch.float64]
    assert torch.get_default_dtype() is torch.float32
