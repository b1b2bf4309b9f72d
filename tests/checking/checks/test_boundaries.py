"""What the boundary points find, that nothing else finds it, and where there is no truth to compare with."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks import boundaries
from gradwright.checking.checks.boundaries import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked

Function = torch.autograd.Function


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def answers(subject, *args, level="standard"):
    return list(CHECK.run(pose(subject, args, level=level)))


def found(subject, *args, level="standard"):
    return [answer for answer in answers(subject, *args, level=level) if isinstance(answer, Finding)]


def checks_that_find_something(subject, *args):
    return {finding.check for finding in gw.check(subject, *args).findings}


def made(forward, backward):
    """A Function of one input: ``backward(cotangent, x)``."""

    class Made(Function):
        @staticmethod
        def forward(ctx, x, *rest):
            ctx.save_for_backward(x)
            ctx.rest = rest
            return forward(x, *rest)

        @staticmethod
        def backward(ctx, cotangent):
            (x,) = ctx.saved_tensors
            return backward(cotangent, x, *ctx.rest), *(None for _ in ctx.rest)

    return Made


def exp_of_symmetric(x):
    return torch.linalg.matrix_exp((x + x.mT) / 2)


def its_vjp_by_eigenvalues(cotangent, x):
    """Divides by differences of eigenvalues, and so by zero at ties."""
    values, vectors = torch.linalg.eigh((x + x.mT) / 2)
    apart = values[:, None] - values[None, :]
    ratio = (values.exp()[:, None] - values.exp()[None, :]) / apart
    ratio = torch.where(torch.eye(len(values), dtype=torch.bool), values.exp().diag(), ratio)
    found = vectors @ ((vectors.mT @ cotangent @ vectors) * ratio) @ vectors.mT
    return (found + found.mT) / 2


MASK = torch.tensor([[True, False, True], [False, True, True]])
SPOILED = [
    pytest.param(
        made(lambda x: x.prod(-1), lambda g, x: (g * x.prod(-1))[..., None] / x), (draw(2, 3),),
        "not finite", "x = 0", id="product divided by an entry",
    ),
    pytest.param(
        made(torch.sinc, lambda g, x: g * (torch.cos(torch.pi * x) - torch.sinc(x)) / x), (draw(5),),
        "not finite", "x = 0", id="sinc",
    ),
    pytest.param(
        made(lambda x: x**3, lambda g, x: g * 3 * x**3 / x), (draw(5),),
        "not finite", "x = 0", id="0 / 0",
    ),
    pytest.param(
        made(torch.nn.functional.softplus, lambda g, x: g * x.exp() / (1 + x.exp())), (draw(5),),
        "not finite", "x = 1e4", id="inf / inf",
    ),
    pytest.param(
        made(lambda x: x.clamp(-100, 100), lambda g, x: g), (draw(5),), "region", "x = 1e4", id="a clamp far away"
    ),
    pytest.param(
        made(lambda x: x**3, lambda g, x: torch.where(x == 0, g, 3 * g * x**2)), (draw(5),),
        "region", "x = 0", id="a wrong limit",
    ),
    pytest.param(
        made(lambda x, m: torch.where(m, x, 0.0).sum(-1) / m.sum(-1).clamp(min=1),
             lambda g, x, m: (g / m.sum(-1))[..., None] * m), (draw(2, 3), MASK),
        "not finite", "rest[0] all False", id="fully masked",
    ),
    pytest.param(
        made(exp_of_symmetric, its_vjp_by_eigenvalues), (draw(3, 3),), "not finite", "x = 0", id="equal eigenvalues"
    ),
]  # fmt: skip


@pytest.mark.parametrize("subject, args, cause, region", SPOILED)
def test_only_the_boundary_points_reject_what_is_right_elsewhere(subject, args, cause, region):
    finding = found(subject, *args)[0]
    assert (finding.code, finding.cause, finding.severity) == ("GW103", cause, "error")
    assert finding.evidence["region"] == region and region in finding.message
    assert checks_that_find_something(subject, *args) == {CHECK.title}


def test_a_nan_out_of_the_branch_not_taken_is_found_in_plain_torch_too():
    (finding, *_) = found(lambda x: torch.where(x == 0, 1.0, x.sin() / x), draw(5))
    assert (finding.cause, finding.evidence["region"]) == ("not finite", "x = 0")
    assert finding.evidence["expected"] == pytest.approx(0, abs=1e-6)


def test_the_truth_at_that_very_point_is_told():
    (finding, *_) = found(made(torch.nn.functional.softplus, lambda g, x: g * x.exp() / (1 + x.exp())), draw(5))
    assert finding.evidence["at"] == (0,) and abs(finding.evidence["expected"]) > 0.2


def test_what_is_not_finite_in_the_call_given_is_found_there():
    subject = made(lambda x: x.prod(-1), lambda g, x: (g * x.prod(-1))[..., None] / x)
    x = draw(2, 3)
    x[0, 1] = 0
    assert found(subject, x)[0].evidence["region"] == "the call that was given"


KINKED = [
    torch.relu, torch.abs, torch.nn.functional.hardtanh, lambda x: x.norm(), lambda x: x.max(), lambda x: x.median(),
    lambda x: x.sort().values, lambda x: x.abs().sqrt(), lambda x: torch.xlogy(x, x.abs()), torch.floor, torch.sign,
    lambda x: torch.linalg.eigvalsh(torch.outer(x, x) + x.diag()), lambda x: torch.linalg.svd(x.diag()).U,
    lambda x: x.std(), lambda x: torch.nn.functional.normalize(x, dim=0), lambda x: torch.cdist(x[None], -x[None]),
    made(torch.round, lambda g, x: g), made(lambda x: x.clamp(-1, 1), lambda g, x: g),
]  # fmt: skip


@pytest.mark.parametrize("subject", KINKED)
def test_where_there_is_no_derivative_nothing_is_said(subject):
    assert found(subject, draw(5)) == []


SMOOTH = [
    torch.sigmoid, torch.tanh, torch.sin, torch.exp, torch.nn.functional.gelu, torch.nn.functional.softplus, torch.sinc,
    lambda x: x.softmax(-1), lambda x: x.logsumexp(-1), lambda x: x.prod(-1), lambda x: x.cumprod(-1), torch.atan,
    lambda x: x.var(), lambda x: torch.special.i0e(x),
]  # fmt: skip


@pytest.mark.parametrize("subject", SMOOTH)
def test_right_ones_stay_silent(subject):
    assert found(subject, draw(5)) == []


def test_a_domain_is_left_alone():
    assert found(torch.log, draw(5).abs()) == []
    assert found(torch.nn.functional.binary_cross_entropy, draw(5).sigmoid(), draw(5, seed=1).sigmoid()) == []


def test_a_value_of_neither_side_of_a_kink_is_a_remark_only():
    subject = made(torch.relu, lambda g, x: g * torch.where(x == 0, 5.0, (x > 0).double()))
    (finding,) = found(subject, draw(5))
    assert (finding.severity, finding.evidence["region"]) == ("info", "one entry of x = 0")
    assert gw.check(subject, draw(5)).ok


def test_a_wrong_gradient_is_left_to_the_value_check():
    assert found(made(lambda x: x**2, lambda g, x: g * x + 1), draw(5)) == []


def test_a_declared_surrogate_may_pass_a_clamp():
    declared = made(lambda x: x.clamp(-100, 100), lambda g, x: g)
    gw.surrogate(reason="straight through")(declared)
    assert found(declared, draw(5)) == []


def test_inputs_beyond_the_first_are_told_of_at_the_standard_level():
    lines = answers(lambda *xs: sum(xs), *(draw(2, seed=n) for n in range(6)))
    assert [type(line) for line in lines] == [NotChecked]


def test_a_subject_that_grows_slow_is_not_asked_on(monkeypatch):
    def timed(trial):
        return trial.gradient(), 30.0 if float(trial.inputs[0].abs().max()) > 1e3 else 1e-4

    monkeypatch.setattr(boundaries, "_timed_gradient", timed)
    lines = [line for line in answers(torch.sin, draw(3)) if isinstance(line, NotChecked)]
    assert {line.what for line in lines} == {"huge values"}
