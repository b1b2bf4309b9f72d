"""Check 1 tells the input, the element, the values, the cause, and what to do; only it sees a wrong formula."""

import pytest
import torch

import gradwright as gw


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * grad_output * x**2


class PowerNotLowered(Power):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * grad_output * x**3


X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_only_this_check_rejects_a_wrong_formula():
    report = gw.check(PowerNotLowered, X, level="standard")
    assert {finding.check for finding in report.findings} == {"value"}
    (finding,) = report.findings
    assert (finding.code, finding.cause, finding.severity, finding.input) == ("GW101", "formula", "error", "x")
    at = finding.evidence["at"]
    ratio = finding.evidence["returned"] / finding.evidence["expected"]
    assert ratio == pytest.approx(float(X[at]))
    assert f"x{list(at)}: returned" in finding.why


def test_the_message_names_what_fits_and_do_how_to_mend_it():
    class Double(Power):
        @staticmethod
        def backward(ctx, grad_output):
            return 2 * Power.backward(ctx, grad_output)

    (finding,) = gw.check(Double, X, level="quick").findings
    assert finding.message == "Double returns a wrong gradient of x: constant factor (2 times what it is)"
    assert finding.do == "divide what is returned for x by 2"
    assert finding.evidence["factor"] == pytest.approx(2)


@pytest.mark.parametrize(("factor", "do"), [(0.5, "multiply what is returned for x by 2"),
                                            (-0.25, "multiply what is returned for x by -4"),
                                            (0.4, "divide what is returned for x by 0.4")])  # fmt: skip
def test_a_part_of_the_gradient_is_to_be_multiplied(factor: float, do: str):
    class Part(Power):
        @staticmethod
        def backward(ctx, grad_output):
            return factor * Power.backward(ctx, grad_output)

    (finding,) = gw.check(Part, X, level="quick").findings
    assert finding.do == do


def test_a_right_gradient_costs_no_more_than_fifteen_calls():
    report = gw.check(Power, X, level="quick")
    (value,) = (done for done in report.done if done.check == "value")
    assert value.comparisons <= 15


def test_a_verdict_is_made_once_for_all_checks_that_ask():
    report = gw.check(Power, X, level="quick")
    (surrogate,) = (done for done in report.done if done.check == "surrogate")
    assert surrogate.comparisons == 0
