"""``gw.diagnose`` on Functions, modules and callables: right, wrong, on what it can't judge, and on what never ends."""

import time

import numpy
import pytest
import torch

import gradwright as gw
from gradwright.doctor import consultation
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.errors import UsageError

X = torch.linspace(-1.3, 1.7, 12).reshape(4, 3)
W = torch.linspace(0.4, 2.0, 6).reshape(3, 2)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent @ w.t(), x.t() @ cotangent


class Doubled(Product):
    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent @ w.t(), 2 * (x.t() @ cotangent)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class Endless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, cotangent):
        while True:
            time.sleep(0.01)


class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.w = function, torch.nn.Parameter(W.clone())

    def forward(self, x):
        return self.function.apply(x, self.w)


class Quantized(torch.nn.Module):
    def forward(self, x):
        codes = torch.eye(3)
        nearest = codes[(x[:, None] - codes).square().sum(-1).argmin(1)]
        return x + (nearest - x).detach(), (nearest - x.detach()).square().mean()


def faults(report):
    return [finding.code for finding in report.findings if finding.severity != "info"]


def verdicts(report):
    return {fact.input_name: fact.verdict for fact in report.of(GradientVerdict)}


RIGHT = {
    "a Function": (Product, X, W),
    "a bound apply": (Product.apply, X, W),
    "a module with a Function": (Layer(Product), X),
    "a module of integers": (torch.nn.Embedding(5, 3), torch.tensor([1, 4])),
    "a module with buffers": (torch.nn.BatchNorm1d(3), X),
    "dropout": (torch.nn.Dropout(0.5), X),
    "a builtin": (torch.sin, X),
    "in place on its input": (lambda x: x.mul_(2).relu_(), X),
    "an integer and a tensor": (lambda x, n: x**n, X, 3),
    "a mask": (lambda x, mask: torch.where(mask, x, 0), X, X > 0),
    "a dict of outputs": (lambda x: {"y": x.exp(), "n": 3}, X),
    "complex numbers": (lambda z: (z * z.conj()).real, torch.complex(X, X + 1)),
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_is_called_right(case):
    report = gw.diagnose(*RIGHT[case])
    assert report.ok and set(verdicts(report).values()) == {"right"}


@pytest.mark.parametrize(
    ("given", "at"),
    [
        pytest.param((Doubled, X, W), "2 * (x.t() @ cotangent)", id="a Function"),
        pytest.param((Doubled.apply, X, W), "2 * (x.t() @ cotangent)", id="a bound apply"),
        pytest.param((Layer(Doubled), X), "2 * (x.t() @ cotangent)", id="inside a module"),
        pytest.param((lambda x, w: Doubled.apply(x, w).sin(), X, W), "2 * (x.t() @ cotangent)", id="inside a lambda"),
    ],
)
def test_a_wrong_gradient_is_told_once_where_it_is_returned(given, at):
    report = gw.diagnose(*given)
    assert faults(report) == ["GW101"]
    (finding,) = report.findings
    line = report.source(finding.location.path).text.splitlines()[finding.location.line - 1]
    assert line[finding.location.column - 1 : finding.location.end_column - 1].strip("()") == at.strip("()")
    assert "twice the gradient of w" in finding.message and finding.fix is not None


def test_a_gradient_lost_in_numpy_is_the_callables_own_fault():
    report = gw.diagnose(lambda x: x * torch.from_numpy(numpy.sin(x.detach().numpy())), X)
    assert faults(report) == ["GW101"] and ".numpy()" in report.findings[0].hints[0]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((Quantized(), X), id="a straight-through detach"),
        pytest.param((lambda x: x / x.detach().norm(), X), id="detach"),
        pytest.param((lambda x: torch.no_grad()(torch.softmax)(x, 0) * x, X), id="no_grad"),
        pytest.param((lambda x: Rounded.apply(x).exp(), X), id="a straight-through Function"),
        pytest.param((Rounded, X), id="the Function itself"),
    ],
)
def test_a_gradient_held_back_on_purpose_is_information(given):
    report = gw.diagnose(*given)
    assert report.ok and [finding.code for finding in report.findings] == ["GW102"]


def test_tensors_in_lists_and_dicts_are_judged_by_their_names():
    report = gw.diagnose(lambda pair, more: pair[0] * more["scale"], [X, X], {"scale": X + 3})
    assert verdicts(report) == {"pair[0]": "right", "pair[1]": "right", "more['scale']": "right"}


def test_only_what_requires_a_gradient_is_judged_if_anything_does():
    report = gw.diagnose(Doubled, X.clone().requires_grad_(), W)
    assert verdicts(report) == {"x": "right"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((3, X), "this is a int"),
        (("Product", X), "this is a str"),
        ((Product,), "no input"),
        ((Product, 1, 2), "floating-point tensor"),
        ((lambda x: x, torch.arange(3)), "floating-point tensor"),
        ((torch.nn.Linear, X), "class of a module"),
    ],
)
def test_what_has_no_gradient_to_ask_for_is_refused_with_a_way_out(given, words):
    with pytest.raises(UsageError, match=words):
        gw.diagnose(*given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((lambda x: None, X), "no output of it can receive a gradient"),
        ((lambda x: x.argmax(), X), "no output of it can receive a gradient"),
        ((lambda x: x.detach() * 2, X), "no output of it can receive a gradient"),
        ((torch.log, -X.abs() - 1), "NaN"),
    ],
)
def test_what_can_not_be_judged_is_unknown_with_the_reason(given, words):
    report = gw.diagnose(*given)
    assert faults(report) == [] and words in str(report)
    assert repr(report) == "<Report: no gradient could be judged; print() shows it>"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((lambda x: 1 / 0, X), "ZeroDivisionError"),
        ((Product, X), "missing 1 required positional argument"),
        ((Product, X, X), "shapes cannot be multiplied"),
    ],
)
def test_what_raises_is_told_in_the_report(given, words):
    report = gw.diagnose(*given)
    assert faults(report) == ["GW901"] and words in report.findings[0].message


@pytest.mark.parametrize("given", [(Endless, X), (lambda x: time.sleep(60), X)], ids=["backward", "forward"])
def test_what_never_ends_is_said_to_be_so(given, monkeypatch):
    monkeypatch.setattr(consultation, "_PATIENCE", 0.5)
    report = gw.diagnose(*given)
    assert "had not ended" in str(report) and "no gradient could be judged" in repr(report)


def test_the_callers_things_stay_as_they_were():
    layer, state = torch.nn.BatchNorm1d(3), torch.get_rng_state()
    leaf = X.clone().requires_grad_()
    with torch.no_grad():
        gw.diagnose(torch.nn.Sequential(torch.nn.Dropout(), layer), leaf)
    assert torch.equal(torch.get_rng_state(), state)
    assert int(layer.num_batches_tracked) == 0 and not layer.running_mean.any()
    assert leaf.grad is None and layer.weight.grad is None


def test_a_notebook_shows_a_page():
    page = gw.diagnose(Doubled, X, W)._repr_html_()
    assert "GW101" in page and "Doubled" in page and "<script" not in page
