"""A gradient that is not the derivative of the value, also of the unreduced loss."""

import torch

import gradwright as gw

TITLE = "gradient is the derivative of the value"


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(prediction, target)
        return ((prediction - target) ** 2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        return grad_output * 4 * (prediction - target) / prediction.numel(), None


class Deaf(torch.autograd.Function):
    """Right after a mean, whose cotangents are all alike."""

    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(prediction, target)
        return (prediction - target) ** 2

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        return 2 * (prediction - target) * grad_output.mean(), None


def deaf(prediction, target, reduction="mean"):
    loss = Deaf.apply(prediction, target)
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean()}[reduction]


def test_a_factor_in_a_function_or_its_apply(faults):
    assert faults(Twice) == faults(Twice.apply) == {("GW101", "constant factor", TITLE)}


def test_a_backward_that_takes_all_cotangents_for_alike_is_seen_without_reduction(faults):
    assert {(code, check) for code, _, check in faults(deaf)} == {("GW101", TITLE)}
    findings = gw.check_loss(deaf).findings
    assert any('reduction="none"' in finding.why for finding in findings if finding.code == "GW101")


def test_the_verdict_of_the_prediction_stands_in_the_report():
    (verdict,) = gw.check_loss(torch.nn.functional.mse_loss).verdicts
    assert (verdict.name, verdict.verdict) == ("prediction", "right")
