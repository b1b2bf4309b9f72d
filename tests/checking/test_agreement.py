"""Held to ``expect=`` and ``reference=``: what agrees is right, what does not is named, what is unfit is refused."""

import numpy as np
import pytest
import torch

import gradwright as gw
from gradwright.errors import UsageError


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def function(forward, backward, name="Subject"):
    def run(ctx, *args):
        ctx.args = args
        return forward(*args)

    def back(ctx, *cotangents):
        return backward(*cotangents, *ctx.args)

    return type(name, (torch.autograd.Function,), {"forward": staticmethod(run), "backward": staticmethod(back)})


def faults(report):
    return [(finding.code, finding.cause) for finding in report.findings if finding.severity != "info"]


# --- expect ----------------------------------------------------------------------------------------------------------

Straight = function(lambda x: x.round(), lambda g, x: g)
Clipped = function(lambda x: x.sign(), lambda g, x: g * (x.abs() <= 1))
Product = function(lambda x, w: (x * w).round(), lambda g, x, w: (g * w, g * x))
Two = function(lambda x: (x.round(), x.sign()), lambda g, h, x: g + 2 * h)
Complex = function(lambda z: torch.view_as_complex(torch.view_as_real(z).round()), lambda g, z: 2 * z.conj() * g)

EXPECTED = {
    "a formula": (Straight, lambda grad_output, x: grad_output, draw(5)),
    "a formula by count": (Straight, lambda upward, x: upward, draw(5)),
    "a value": (Straight, lambda x: x, draw(5)),
    "a function of torch": (Clipped, torch.nn.functional.hardtanh, draw(9)),
    "a builtin": (function(lambda x: x.round(), lambda g, x: g * (1 - x.tanh() ** 2)), torch.tanh, draw(5)),
    "a module": (Clipped, torch.nn.Hardtanh(), draw(9)),
    "two inputs": (Product, lambda grad_output, x, w: (grad_output * w, grad_output * x), draw(5), draw(5, seed=1)),
    "two inputs, a value": (Product, torch.mul, draw(5), draw(5, seed=1)),
    "two inputs, one None": (
        function(lambda x, w: (x * w).round(), lambda g, x, w: (g * w, None)),
        lambda grad_output, x, w: (grad_output * w, None),
        draw(5),
        draw(5, seed=1),
    ),
    "an option": (
        function(lambda x, k: x.round(), lambda g, x, k: (k * g, None)),
        lambda grad_output, x, k: k * grad_output,
        draw(5),
        3.0,
    ),
    "two outputs": (Two, lambda grad_y, grad_z, x: grad_y + 2 * grad_z, draw(5)),
    "two outputs, a value": (Two, lambda x: (x, 2 * x), draw(5)),
    "complex": (Complex, lambda grad_output, z: 2 * z.conj() * grad_output, draw(5, dtype=torch.complex64)),
    "complex, a value": (Complex, lambda z: z * z, draw(5, dtype=torch.complex64)),
    "a callable": (lambda x: x + (x.round() - x).detach(), lambda x: x, draw(5)),
    "a tree": (
        lambda d: d["x"] + (d["x"].round() - d["x"]).detach(),
        lambda grad_output, d: grad_output,
        {"x": draw(5)},
    ),
    "an input named g": (lambda g: g**2 / 2, lambda g: g**2 / 2, draw(5)),
    "defaults": (Clipped, lambda x, least=-1.0, most=1.0: x.clamp(least, most), draw(9)),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPECTED)
def test_what_follows_the_formula_is_right_and_said_to_be_held_to_it(case):
    subject, expect, *inputs = EXPECTED[case]
    report = gw.check(subject, *inputs, expect=expect, level="quick")
    assert [finding for finding in report.findings if finding.code in ("GW101", "GW102")] == []
    assert {verdict.verdict for verdict in report.verdicts} == {"right"}
    assert all("expect" in verdict.reason and "expect" in verdict.oracles[0] for verdict in report.verdicts)


NOT_AS_EXPECTED = {
    "half of it": (function(torch.round, lambda g, x: 0.5 * g), lambda grad_output, x: grad_output, "constant factor"),
    "one in a thousand": (function(lambda x: x.round(), lambda g, x: 1.001 * g), lambda x: x, "constant factor"),
    "sign": (function(lambda x: x.round(), lambda g, x: -g), lambda x: x, "sign"),
    "no cotangent": (function(torch.round, lambda g, x: torch.ones_like(x)), lambda x: x, "missing grad_output"),
    "another region": (function(lambda x: x.sign(), lambda g, x: g), torch.nn.functional.hardtanh, "region"),
    "the derivative itself": (function(torch.sin, lambda g, x: g * x.cos()), lambda x: x, None),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_AS_EXPECTED)
def test_what_does_not_follow_the_formula_is_wrong_and_its_cause_named(case):
    subject, expect, cause = NOT_AS_EXPECTED[case]
    report = gw.check(subject, 2 * draw(40), expect=expect, level="quick")
    (finding,) = [finding for finding in report.findings if finding.check == "value"]
    assert finding.code == "GW101"
    assert cause is None or finding.cause == cause
    assert "expect" in finding.why


def test_a_lost_conjugate_is_found_beside_a_formula():
    subject = function(lambda z: torch.view_as_complex(torch.view_as_real(z).round()), lambda g, z: 2 * z * g)
    assert not gw.check(subject, draw(5, dtype=torch.complex64), expect=lambda z: z * z, level="quick").ok


IMPOSSIBLE = {
    "a cotangent without inputs": (lambda g: g, draw(5)),
    "too many parameters": (lambda a, b, c, d: a, draw(5)),
    "anything": (lambda *all_of_them: all_of_them[0], draw(5)),
    "another shape": (lambda grad_output, x: grad_output.sum(), draw(5)),
    "a value of another shape": (lambda x: x.sum(), draw(5)),
    "a value without a gradient": (lambda x: x.detach(), draw(5)),
    "it raises": (lambda grad_output, x: grad_output.nothing, draw(5)),
    "too few gradients": (lambda grad_output, x, w: grad_output, draw(5), draw(5)),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_formula_that_can_not_be_meant_is_refused_with_what_to_do(case):
    expect, *inputs = IMPOSSIBLE[case]
    subject = Straight if len(inputs) == 1 else Product
    with pytest.raises(UsageError, match=r"expect (takes|returned|raised)[\s\S]*\n  do "):
        gw.check(subject, *inputs, expect=expect, level="quick")


# --- reference -------------------------------------------------------------------------------------------------------


class NumpySoftmax(torch.autograd.Function):
    """Forward and backward outside torch, in the dtype of the input (bfloat16 as float32, rounded once)."""

    @staticmethod
    def forward(ctx, x):
        array = x.detach().float().numpy() if x.dtype is torch.bfloat16 else x.detach().numpy()
        e = np.exp(array - array.max(-1, keepdims=True))
        y = torch.from_numpy(e / e.sum(-1, keepdims=True)).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return (y.float() * (g - (g * y).float().sum(-1, keepdim=True))).to(y.dtype)


def only(dtype, forward, backward):
    def refuse(*args):
        if any(arg.dtype is not dtype for arg in args if isinstance(arg, torch.Tensor)):
            raise TypeError(f"this kernel takes {dtype}")
        return forward(*args)

    return function(refuse, backward)


def matmul(change=lambda a, b: (a, b), dtype=torch.bfloat16):
    """As a kernel does it: products summed in float32, rounded once."""

    def backward(g, a, b):
        for_a, for_b = change(g.float() @ b.float().mT, a.float().mT @ g.float())
        return for_a.to(a.dtype), for_b.to(b.dtype)

    return only(dtype, lambda a, b: (a.float() @ b.float()).to(a.dtype), backward)


def low(*shape, seed=0, dtype=torch.bfloat16):
    return draw(*shape, seed=seed).to(dtype)


AGREES = {
    "numpy": (NumpySoftmax, lambda x: x.softmax(-1), draw(4, 9)),
    "numpy, bfloat16": (NumpySoftmax, lambda x: x.softmax(-1), low(4, 300)),
    "bfloat16 only": (matmul(), torch.matmul, low(8, 64), low(64, 16, seed=1)),
    "float16 only": (
        matmul(dtype=torch.float16),
        torch.matmul,
        low(8, 64, dtype=torch.float16),
        low(64, 16, seed=1, dtype=torch.float16),
    ),
    "float32 only": (only(torch.float32, lambda x: x**3, lambda g, x: 3 * g * x**2), lambda x: x**3, draw(50)),
    "float64": (function(torch.sin, lambda g, x: g * x.cos()), torch.sin, draw(5).double()),
    "a reference in float32": (matmul(), lambda a, b: a.float() @ b.float(), low(8, 64), low(64, 16, seed=1)),
    "complex": (function(lambda z: z * z, lambda g, z: 2 * g * z.conj()), torch.square, draw(5, dtype=torch.complex64)),
    "a surrogate's twin": (Straight, lambda x: x + (x.round() - x).detach(), draw(5)),
    "a module's twin": (torch.nn.Linear(4, 3), torch.nn.Linear(4, 3), draw(5, 4)),
    "kinks": (only(torch.bfloat16, torch.relu, lambda g, x: g * (x > 0)), torch.relu, low(300)),
    "cancelling": (
        only(torch.bfloat16, lambda x: x - x.mean(), lambda g, x: g - g.mean()), lambda x: x - x.mean(), 100 + low(64)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AGREES)
def test_what_agrees_with_its_reference_as_far_as_its_dtype_goes_is_right(case):
    subject, reference, *inputs = AGREES[case]
    report = gw.check(subject, *inputs, reference=reference, level="quick")
    assert [f for f in report.findings if f.check in ("value", "surrogate")] == []
    assert {verdict.verdict for verdict in report.verdicts} == {"right"}
    assert all("reference" in verdict.reason for verdict in report.verdicts)


DIFFERS = {
    "half": (matmul(lambda a, b: (0.5 * a, b)), "constant factor", "0]"),
    "a tenth too much": (matmul(lambda a, b: (a, 1.1 * b)), "constant factor", "1]"),
    "sign": (matmul(lambda a, b: (-a, b)), "sign", "0]"),
    "nothing": (matmul(lambda a, b: (0 * a, b)), None, "0]"),
    "one row": (matmul(lambda a, b: (a, b * (torch.arange(len(b)) != 5)[:, None])), None, "1]"),
}


@pytest.mark.parametrize("case", DIFFERS)
def test_what_differs_by_more_than_rounding_is_wrong_with_its_cause(case):
    subject, cause, name = DIFFERS[case]
    report = gw.check(subject, low(8, 64), low(64, 16, seed=1), reference=torch.matmul, level="quick")
    (finding,) = [finding for finding in report.findings if finding.check == "value"]
    assert finding.code == "GW101"
    assert finding.input.endswith(name)
    assert cause is None or finding.cause == cause


def test_a_lost_conjugate_is_found_beside_a_reference():
    subject = function(lambda z: z * z, lambda g, z: 2 * g * z)
    report = gw.check(subject, draw(5, dtype=torch.complex64), reference=torch.square, level="quick")
    assert ("GW101", "value") in {(finding.code, finding.check) for finding in report.findings}


def test_another_value_than_the_references_is_a_fault():
    subject = only(torch.float32, lambda x: 2 * x, lambda g, x: g)
    report = gw.check(subject, draw(5), reference=lambda x: x.clone(), level="quick")
    assert ("GW101", "constant factor") in faults(report)
    assert "another value" in report.findings[0].message


def test_what_is_only_less_precise_than_eager_loses_precision():
    def coarse(g, x):
        return (g.half() * x.half().cos()).to(x.dtype)

    report = gw.check(only(torch.float32, torch.sin, coarse), draw(50), reference=torch.sin, level="quick")
    assert faults(report) == [("GW104", "precision lost")]


def test_what_changes_from_run_to_run_at_rounding_size_is_told_and_no_fault():
    state = {"runs": 0}

    def atomics(g, x, w):
        state["runs"] += 1
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(state["runs"]))
        total = torch.zeros_like(w)
        for row in (g * x)[order]:
            total = total + row
        return g * w, total

    subject = only(torch.float32, lambda x, w: x * w, atomics)
    report = gw.check(subject, draw(300, 3), draw(3, seed=1), reference=torch.mul, level="quick")
    value = [finding for finding in report.findings if finding.check == "value"]
    assert [(f.code, f.cause, f.severity) for f in value] == [("GW107", "nondeterminism", "info")]
    assert {verdict.verdict for verdict in report.verdicts} == {"right"}


def test_a_race_is_more_than_rounding_explains():
    state = {"runs": 0}

    def race(g, x):
        state["runs"] += 1
        return g * x.cos() * (torch.arange(len(x)) != state["runs"] % 3 - 1)

    report = gw.check(only(torch.float32, torch.sin, race), draw(50), reference=torch.sin, level="quick")
    assert ("GW107", "nondeterminism") in faults(report)


UNFIT = {
    "another shape": lambda x: x.sum(),
    "two outputs": lambda x: (x, x),
    "it raises": lambda x: x.nothing,
    "no gradient": lambda x: x.detach(),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_reference_that_can_not_be_compared_is_refused(case):
    with pytest.raises(UsageError, match=r"reference[\s\S]*\n  do "):
        gw.check(Straight, draw(5), reference=UNFIT[case], level="quick")


def test_nothing_of_the_callers_changes():
    x, state = draw(5), torch.get_rng_state()
    before = x.clone()
    gw.check(Straight, x, expect=lambda x: x.mul_(1) * 1, level="quick")
    gw.check(Straight, x, reference=lambda x: x + (x.round() - x).detach(), level="quick")
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state) and x.grad is None
