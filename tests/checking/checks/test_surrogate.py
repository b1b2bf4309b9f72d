"""What could be meant is a surrogate to be declared, once; what could not is a wrong gradient with its cause."""

import pytest
import torch

import gradwright as gw


def function(forward, backward):
    def run(ctx, x):
        ctx.save_for_backward(x)
        return forward(x)

    def back(ctx, cotangent):
        return backward(cotangent, *ctx.saved_tensors)

    return type("Meant", (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def same(x):
    return x.view_as(x)


X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MEANT = {
    "straight through": (torch.round, lambda g, x: g, "piecewise constant", "formula"),
    "a window": (torch.sign, lambda g, x: g * (x.abs() < 1), "piecewise constant", "formula"),
    "a spike's": (lambda x: (x > 0).to(x.dtype), lambda g, x: g / (1 + x.abs()) ** 2, "piecewise constant", "formula"),
    "softmax for argmax": (
        lambda x: torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype),
        lambda g, x: torch.autograd.functional.vjp(lambda y: y.softmax(-1), x, g)[1],
        "piecewise constant",
        "formula",
    ),
    "reversed": (same, lambda g, x: -g, "identity", "sign"),
    "scaled": (same, lambda g, x: 0.3 * g, "identity", "constant factor"),
    "stopped": (same, lambda g, x: None, "identity", "dropped term"),
    "clipped": (same, lambda g, x: g.clamp(-0.5, 0.5), "identity", "nonlinear in the cotangent"),
    "of another length": (same, lambda g, x: g / g.norm(), "identity", "nonlinear in the cotangent"),
    "masked": (same, lambda g, x: g * (x > 0), "identity", "region"),
    "by a metric": (same, lambda g, x: g * (1 - x**2) ** 2, "identity", "formula"),
}


@pytest.mark.parametrize("case", MEANT)
def test_what_could_be_meant_asks_for_its_declaration(case):
    forward, backward, kind, cause = MEANT[case]
    report = gw.check(function(forward, backward), X, level="quick")
    (finding,) = (finding for finding in report.findings if finding.code.startswith("GW10"))
    assert (finding.code, finding.severity, finding.check) == ("GW102", "warning", "surrogate")
    assert (finding.evidence["surrogate"], finding.cause) == (kind, cause)
    assert [verdict.verdict for verdict in report.verdicts] == ["surrogate"]
    assert not report.ok


@pytest.mark.parametrize("case", MEANT)
def test_declared_it_is_no_finding_and_the_verdict_says_why(case):
    forward, backward, *_ = MEANT[case]
    report = gw.check(gw.surrogate(reason="on purpose")(function(forward, backward)), X, level="quick")
    assert not [finding for finding in report.findings if finding.code in ("GW101", "GW102")]
    assert [(verdict.verdict, verdict.reason) for verdict in report.verdicts] == [("surrogate", "on purpose")]


def test_a_right_gradient_that_is_declared_is_right():
    report = gw.check(gw.surrogate(reason="none needed")(function(torch.sin, lambda g, x: g * x.cos())), X)
    assert report.ok, report
    assert report.verdicts[0].verdict == "right"


NEVER = {
    "rounded, permuted": (torch.round, lambda g, x: g.flip(1), "permutation"),
    "rounded, with noise": (torch.round, lambda g, x: g + torch.rand_like(g), "nondeterminism"),
    "rounded, offset": (torch.round, lambda g, x: g + 0.1, "additive offset"),
    "rounded, no cotangent": (torch.round, lambda g, x: torch.ones_like(g), "additive offset"),
    "rounded, rows averaged": (torch.round, lambda g, x: g.mean(0).expand_as(g), "batch rows mixed"),
    "rounded, absolute": (torch.round, lambda g, x: g.abs(), "nonlinear in the cotangent"),
    "the same, permuted": (same, lambda g, x: g.flip(1), "permutation"),
    "the same, offset": (same, lambda g, x: g + 0.1, "additive offset"),
    "the same, no cotangent": (same, lambda g, x: torch.ones_like(g), "missing grad_output"),
    "the same, with noise": (same, lambda g, x: g * torch.rand_like(g), "nondeterminism"),
    "the same, rounded": (same, lambda g, x: g.float().double(), "precision lost"),
    "the same, rows mixed": (same, lambda g, x: g + 0.5 * g.roll(1, 0), "batch rows mixed"),
    "the same, nearly": (same, lambda g, x: 1.0005 * g, "constant factor"),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_could_not_be_meant_is_wrong_with_its_cause(case):
    forward, backward, cause = NEVER[case]
    report = gw.check(function(forward, backward), X, level="quick")
    told = [(finding.code, finding.cause) for finding in report.findings if finding.code in ("GW101", "GW102")]
    assert told == [("GW101", cause)]


def test_only_this_check_rejects_a_straight_through_estimator():
    report = gw.check(function(torch.round, lambda g, x: g), X, level="standard")
    assert {finding.check for finding in report.findings} == {"surrogate"}


def test_a_derivative_of_zero_and_an_identitys_own_gradient_are_no_surrogates():
    for forward, backward in ((torch.round, lambda g, x: torch.zeros_like(g)), (same, lambda g, x: g)):
        report = gw.check(function(forward, backward), X, level="quick")
        assert not [finding for finding in report.findings if finding.code.startswith("GW10")]
        assert [verdict.verdict for verdict in report.verdicts] == ["right"]


class StepInFloat32(torch.autograd.Function):
    """As snnTorch's arctangent: the forward answers in float32 whatever it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 1 / (1 + (torch.pi * x).pow(2)) * cotangent.clone()


def test_rounding_in_float32_is_not_taken_for_nonlinear():
    for seed in range(5):
        x = 3 * torch.randn(64, 4, generator=torch.Generator().manual_seed(seed))
        (found,) = gw.check(StepInFloat32, x, level="quick", seed=seed).findings
        assert (found.code, found.evidence["surrogate"]) == ("GW102", "piecewise constant")
