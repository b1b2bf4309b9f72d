"""The stable forms: right where the plain formula has lost its digits, judged against fifty digits of mpmath."""

import functools
from typing import Any

import mpmath
import pytest
import torch

from gradwright.errors import GradientError
from gradwright.functions.derive import derive, rewritten
from gradwright.functions.derive.simplify import Rule
from gradwright.functions.derive.stable import RULES

WIDE = [-700.0, -104.0, -40.0, -20.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 17.0, 36.0, 88.0, 700.0]
DIGITS = 1e-12
LAST_DIGIT = 2.0**-52  # torch's sigmoid_backward is y * (1 - y): it knows 1 - y no better


def ratio_of_exp(x):
    return torch.exp(x) / (1 + torch.exp(x))


def inverse_of_exp(x):
    return 1 / (1 + torch.exp(-x))


def one_minus_gate(x):
    return 1 - torch.sigmoid(x)


def log_of_exp(x):
    return torch.log(1 + torch.exp(x))


def log_of_gate(x):
    return torch.log(torch.sigmoid(x))


def exp_minus_one(x):
    return torch.exp(x / 100) - 1


def log_of_one_plus(x):
    return torch.log(1 + x * x * 1e-20)


def guarded_root(x):
    return torch.where(x > 0, torch.sqrt(x), torch.zeros_like(x))


def log_of_shares(x):
    return torch.log(torch.softmax(x, 0))


def log_of_sum(x):
    return torch.log(torch.exp(x * 2).sum(0))


def shares(x):
    return torch.exp(x * 2) / torch.exp(x * 2).sum(0, keepdim=True)


def length(x):
    return torch.sqrt((x * x).sum(0))


POINTWISE: dict[str, tuple[Any, Any]] = {
    "sigmoid, by a ratio": (ratio_of_exp, lambda x: 1 / (1 + mpmath.exp(-x))),
    "sigmoid, by an inverse": (inverse_of_exp, lambda x: 1 / (1 + mpmath.exp(-x))),
    "one minus sigmoid": (one_minus_gate, lambda x: 1 / (1 + mpmath.exp(x))),
    "softplus": (log_of_exp, lambda x: mpmath.log1p(mpmath.exp(x))),
    "log of sigmoid": (log_of_gate, lambda x: -mpmath.log1p(mpmath.exp(-x))),
    "expm1": (exp_minus_one, lambda x: mpmath.expm1(x / 100)),
    "log1p": (log_of_one_plus, lambda x: mpmath.log1p(x * x * mpmath.mpf(1e-20))),
}
RULE_OF = {
    ratio_of_exp: "sigmoid",
    inverse_of_exp: "sigmoid",
    one_minus_gate: "one minus sigmoid",
    log_of_exp: "softplus",
    log_of_gate: "log of sigmoid",
    exp_minus_one: "expm1",
    log_of_one_plus: "log1p",
    guarded_root: "guarded branch",
    log_of_shares: "log of softmax",
    log_of_sum: "logsumexp",
    shares: "softmax",
    length: "norm",
}


@functools.cache
def derived(forward: Any) -> Any:
    return derive(forward, torch.tensor([0.5, 1.5, 2.0], dtype=torch.float64), level="quick")


def with_gradient(forward: Any, values: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    output = derived(forward).custom_gradient(x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    return output.detach(), gradient


@pytest.mark.parametrize("forward", RULE_OF, ids=lambda forward: forward.__name__)
def test_the_form_is_recognised_and_its_reason_told(forward: Any) -> None:
    (rule,) = [rule for rule in derived(forward).rewritten if rule.name == RULE_OF[forward]]
    assert rule.reason.split(";")[0][:30] in " ".join(derived(forward).said)


def test_every_rule_has_a_forward_here() -> None:
    assert {rule.name for rule in RULES} == set(RULE_OF.values())


@pytest.mark.parametrize("name", POINTWISE)
def test_the_value_has_all_its_digits_everywhere_and_so_has_the_slope_down_to_the_last_of_one(name: str) -> None:
    forward, exact = POINTWISE[name]
    output, gradient = with_gradient(forward, WIDE)
    with mpmath.workdps(50):
        for x, value, slope in zip(WIDE, output.tolist(), gradient.tolist(), strict=True):
            assert _close(value, exact(mpmath.mpf(x)))
            assert _close(slope, mpmath.diff(exact, mpmath.mpf(x)), LAST_DIGIT)


def _close(found: float, exact: Any, absolute: float = 1e-300) -> bool:
    return bool(abs(found - exact) <= DIGITS * abs(exact) + absolute)


@pytest.mark.parametrize("name", ["sigmoid, by a ratio", "softplus", "log of sigmoid", "one minus sigmoid"])
def test_the_plain_formula_would_not_pass(name: str) -> None:
    forward, exact = POINTWISE[name]
    x = torch.tensor(WIDE, dtype=torch.float64).mul(1.1).requires_grad_()
    output = forward(x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    right = [
        _close(value, exact(mpmath.mpf(at))) and _close(slope, mpmath.diff(exact, mpmath.mpf(at)), LAST_DIGIT)
        for at, value, slope in zip(x.tolist(), output.tolist(), gradient.tolist(), strict=True)
    ]
    assert not all(right)


def test_a_guarded_branch_has_no_nan() -> None:
    _, gradient = with_gradient(guarded_root, [-1.0, 0.0, 4.0])
    assert gradient.tolist() == [0.0, 0.0, 0.25]


def test_the_norm_has_slope_zero_at_zero() -> None:
    assert with_gradient(length, [0.0, 0.0])[1].tolist() == [0.0, 0.0]
    assert with_gradient(length, [3.0, 4.0])[1].tolist() == pytest.approx([0.6, 0.8], rel=1e-15)


def test_softmax_and_its_logs_take_large_numbers() -> None:
    assert with_gradient(log_of_sum, [1000.0, 0.0])[0].item() == 2000.0
    assert with_gradient(shares, [1000.0, 0.0])[0].tolist() == [1.0, 0.0]
    assert with_gradient(log_of_shares, [1000.0, 0.0])[0].tolist() == [0.0, -1000.0]


def test_a_form_that_is_something_else_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Rule("wrong", "planted: tanh(x) is sigmoid(x)", lambda node, graph: _sigmoid_for_tanh(node, graph))
    monkeypatch.setattr(rewritten, "STABLE", [wrong])
    with pytest.raises(GradientError, match="rewrote tanh to something else, by wrong"):
        derive(torch.tanh, torch.tensor([0.5, 1.5], dtype=torch.float64), level="quick")


def _sigmoid_for_tanh(node: Any, graph: Any) -> Any:
    return graph.make(torch.ops.aten.sigmoid.default, node.args[0]) if node.is_a(torch.ops.aten.tanh) else None
