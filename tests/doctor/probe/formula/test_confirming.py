"""A formula that was tampered with is dropped: in a gradient the gradient, in the forward all of it."""

import dataclasses

import pytest
import torch

from gradwright.doctor.probe.formula import read_off
from gradwright.doctor.probe.formula.confirming import confirmed
from gradwright.doctor.probe.formula.values import NoFormula

X = torch.linspace(-1.3, 1.7, 12, dtype=torch.float64).reshape(4, 3)
W = torch.linspace(0.4, 2.0, 6, dtype=torch.float64).reshape(3, 2)
ARGS, WANTED, NAMES = (X, W, 1.5), (True, True, False), ("x", "w", "beta")


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, beta):
        return torch.tanh(x @ w) * beta

    @staticmethod
    def backward(ctx, grad_output):
        raise AssertionError("nobody asks it")


@pytest.fixture(scope="module")
def formula():
    return read_off(Gated, ARGS, WANTED)


def check(formula):
    return confirmed(formula, Gated, ARGS, WANTED, NAMES)


def test_a_right_formula_is_kept_whole(formula):
    assert set(formula.gradients) == {0, 1} and check(formula) == formula


TAMPERED = {
    "a sign": "-({})",
    "a factor": "1.001 * ({})",
    "a little": "({}) * (1 + 1e-4 * (grad_output.sum() > -1e9))",
    "no cotangent": "({}) * 0 + x",
    "nonlinear in the cotangent": "({}) * abs(grad_output.sum()) / grad_output.sum()",
    "another shape": "({}).sum()",
    "transposed": "({}).T",
    "no text": "({}",
    "an unknown name": "({}) * gamma",
    "nothing": "0",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_gradient_that_was_tampered_with_is_dropped_and_the_other_kept(formula, how):
    *lines, last = formula.gradients[0]
    bad = {0: (*lines, TAMPERED[how].format(last)), 1: formula.gradients[1]}
    assert set(check(dataclasses.replace(formula, gradients=bad)).gradients) == {1}


@pytest.mark.parametrize("text", ["y = tanh(x @ w) * (beta + 1e-6)", "y = tanh(x @ w)", "y = (tanh(x @ w) * beta).T"])
def test_a_forward_that_was_tampered_with_drops_all(formula, text):
    with pytest.raises(NoFormula):
        check(dataclasses.replace(formula, forward=(text,)))


def test_builtins_are_out_of_reach(formula):
    with pytest.raises(NameError):
        check(dataclasses.replace(formula, forward=("y = open('/dev/null')",)))
