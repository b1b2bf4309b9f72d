"""What a card says of a Function: errors by cotangent, what was not tried, a counterexample, a formula."""

import subprocess
import sys

import pytest
import torch

import gradwright as gw
from gradwright.checking.cotangents import IN_PLACES, RANDOM, ZEROS
from gradwright.checking.counterexample import fails
from gradwright.doctor.session.facts import Counterexample, FunctionFormula, GradientVerdict

SCRIPT = """
import torch

SCALE = 0.5


def scaled(gradient):
    return SCALE * gradient


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), scaled(x.t() @ g)


x, w = torch.randn(8, 5), torch.randn(5, 3, requires_grad=True)
for part in (x, x[:4]):
    Linear.apply(part.clone().requires_grad_(), w).square().sum().backward()
"""


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent * x


def run_alone(text, path):
    path.write_text(text)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=600)


@pytest.fixture
def report(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return run(script, cwd=tmp_path, fix_seconds=0.0).report


def test_a_script_is_told_what_its_functions_mean(report, tmp_path):
    facts = sorted(report.of(GradientVerdict), key=lambda fact: fact.id)
    assert [(fact.input_name, fact.verdict) for fact in facts] == [
        ("x", "right"), ("x", "right"), ("w", "wrong"), ("w", "wrong")
    ]  # fmt: skip
    # errors by cotangent: more of them on the specimen that every check was made on
    whole = {fact.input_name: dict(fact.cotangents) for fact in facts if IN_PLACES in dict(fact.cotangents)}
    assert max(whole["x"].values()) < 1e-9
    assert whole["w"][RANDOM] == pytest.approx(0.5) == whole["w"][IN_PLACES] and whole["w"][ZEROS] == 0
    first, second = (next(fact for fact in facts if fact.tried_on.startswith(f"float32[{size}, 5]")) for size in (8, 4))
    assert dict(second.cotangents)[RANDOM] < 1e-9 and IN_PLACES not in dict(second.cotangents)
    # what was not tried, and why
    assert "forward mode" in dict(first.untried) and "under torch.compile" in dict(first.untried)
    assert second.untried == (("every check but that of the value", f"made on another specimen, {first.tried_on}"),)
    # the formula, of the smallest specimen
    (formula,) = report.of(FunctionFormula)
    assert formula.forward == "y = x @ w" and formula.tried_on == second.tried_on
    assert formula.gradients == (("x", "grad_output @ w.T"), ("w", "x.T @ grad_output"))
    # the counterexample, from the smallest specimen that it is wrong on
    (shown,) = report.of(Counterexample)
    assert shown.verdict == next(
        fact.id for fact in facts if fact.verdict == "wrong" and "float32[4, 5]" in fact.tried_on
    )
    ran = run_alone(shown.text, tmp_path / "shown.py")
    assert ran.returncode == 1 and "AssertionError: the gradient is not the derivative" in ran.stderr
    assert "returned:" in ran.stdout and "expected:" in ran.stdout
    mended = run_alone(shown.text.replace("SCALE = 0.5", "SCALE = 1.0"), tmp_path / "mended.py")
    assert mended.returncode == 0, mended.stderr


def test_diagnose_shows_a_program_that_fails_and_passes_once_mended():
    report = gw.diagnose(Wrong, torch.linspace(-1.0, 2.0, 6, requires_grad=True))
    (shown,) = report.of(Counterexample)
    (fact,) = report.of(GradientVerdict)
    assert shown.verdict == fact.id and len(shown.text.encode()) < 20_000
    assert fails(shown.text) and not fails(shown.text.replace("cotangent * x", "2 * cotangent * x"))
    (formula,) = report.of(FunctionFormula)
    assert (formula.forward, formula.gradients) == ("y = x**2", (("x", "2 * grad_output * x"),))


def test_of_a_callable_that_holds_a_function_the_function_is_shown():
    report = gw.diagnose(lambda x: Wrong.apply(x) + 1, torch.linspace(-1.0, 2.0, 6, requires_grad=True))
    (shown,) = report.of(Counterexample)
    assert shown.subject.startswith("function:")
    (callable_,) = (fact for fact in report.of(GradientVerdict) if fact.subject.startswith("callable:"))
    assert callable_.verdict == "wrong" and dict(callable_.untried)


class Declared(Wrong):
    """Half the gradient, on purpose."""


def test_a_declared_surrogate_is_no_counterexample():
    declared = gw.surrogate(reason="half on purpose")(Declared)
    report = gw.diagnose(declared, torch.linspace(-1.0, 2.0, 6, requires_grad=True))
    assert not list(report.of(Counterexample))
    assert [fact.forward for fact in report.of(FunctionFormula)] == ["y = x**2"]


class Right(Wrong):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * cotangent * x


class Noisy(Right):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2 + 0 * torch.randn_like(x)


@pytest.mark.parametrize("function", [Right, Noisy])
def test_what_is_right_has_no_counterexample_and_chance_no_formula(function):
    report = gw.diagnose(function, torch.linspace(-1.0, 2.0, 6, requires_grad=True))
    assert [fact.verdict for fact in report.of(GradientVerdict)] == ["right"]
    assert not list(report.of(Counterexample))
    assert len(list(report.of(FunctionFormula))) == (function is Right)
