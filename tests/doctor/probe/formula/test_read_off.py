"""A formula is read off one call, says what the forward computes, and holds only gradients that were found right."""

import math

import pytest
import torch

from gradwright.doctor.probe.formula import read_off
from gradwright.doctor.probe.formula.values import NoFormula

F = torch.nn.functional
X = torch.linspace(-1.3, 1.7, 12).reshape(4, 3)
Y = torch.linspace(0.2, 0.9, 12).reshape(4, 3)
W = torch.linspace(0.4, 2.0, 6).reshape(3, 2)
B = torch.tensor([0.3, -0.2])
Q, K = X.reshape(2, 2, 3), Y.reshape(2, 2, 3)


def function(forward):
    """A Function with this forward, which takes a ctx, and a backward that nobody asks."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *cotangents: None)}
    return type("Planted", (torch.autograd.Function,), members)


def read(forward, *args):
    wanted = [isinstance(arg, torch.Tensor) and arg.is_floating_point() for arg in args]
    return read_off(function(forward), args, wanted)


def lines(forward, *args):
    """The forward's lines and each gradient's, as one text each."""
    formula = read(forward, *args)
    return "\n".join(formula.forward), *("\n".join(formula.gradients[at]) for at in sorted(formula.gradients))


def swish(ctx, x, beta):
    s = torch.sigmoid(beta * x)
    ctx.save_for_backward(x, s)
    return x * s


def normalised(ctx, x, eps):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    deviation = torch.sqrt((centred**2).mean(-1, keepdim=True) + eps)
    return centred / deviation


SIGMOID_OF = "sigmoid(beta * x)"

WRITTEN = {
    "a number keeps its name": (
        (swish, X, 1.5),
        f"y = x * {SIGMOID_OF}",
        f"grad_output * {SIGMOID_OF} + grad_output * x * {SIGMOID_OF} * (1 - {SIGMOID_OF}) * beta",
    ),
    "an exponent": (
        (lambda ctx, x, p: x**p, Y, 2.5),
        "y = x**p",
        "grad_output * p * x**(p - 1)",
    ),
    "a whole number": ((lambda ctx, x, n: x * n, X, 3), "y = x * n", "grad_output * n"),
    "a size": ((lambda ctx, x, n: x[:, :n].sum(n - 1) + x.sum(), X, 2), "y = x[:, :2].sum(1) + x.sum()"),
    "a sign in a quotient": (
        (lambda ctx, x, t: -(t * torch.log(x)).mean(), Y, X.abs()),
        "y = -(t * log(x)).mean()",
        "-(grad_output / 12 * t / x)",
        "-(grad_output / 12 * log(x))",
    ),
    "a power": ((lambda ctx, x: x**2, X), "y = x**2", "2 * grad_output * x"),
    "a product of matrices, and what is broadcast": (
        (lambda ctx, x, w, b: x @ w + b, X, W, B),
        "y = x @ w + b",
        "grad_output @ w.T",
        "x.T @ grad_output",
        "grad_output.sum(0)",
    ),
    "as torch's own function": (
        (lambda ctx, x, w, b: F.linear(x, w.t(), b), X, W, B),
        "y = x @ w + b",
        "grad_output @ w.T",
        "x.T @ grad_output",
        "grad_output.sum(0)",
    ),
    "as einsum": (
        (lambda ctx, x, w: torch.einsum("ij,jk->ik", x, w), X, W),
        "y = x @ w",
        "grad_output @ w.T",
        "x.T @ grad_output",
    ),
    "rows of a batch": (
        (lambda ctx, x, w: x @ w, Q, W),
        "y = x @ w",
        "grad_output @ w.T",
        "x.reshape(4, 3).T @ grad_output.reshape(4, 2)",
    ),
    "a mean of squares": (
        (lambda ctx, x, t: ((x - t) ** 2).mean(), X, Y),
        "y = ((x - t)**2).mean()",
        "2 * grad_output / 12 * (x - t)",
        "-2 * grad_output / 12 * (x - t)",
    ),
    "the output's own name in a gradient": (
        (lambda ctx, x, w: torch.softmax(x @ w, -1), X, W),
        "y = softmax(x @ w, -1)",
        "(y * (grad_output - (grad_output * y).sum(-1, keepdim=True))) @ w.T",
        "x.T @ (y * (grad_output - (grad_output * y).sum(-1, keepdim=True)))",
    ),
    "relu": (
        (lambda ctx, x, y: torch.relu(x + y), X, Y),
        "output = relu(x + y)",
        "grad_output * ((x + y) > 0)",
        "grad_output * ((x + y) > 0)",
    ),
    "tanh": ((lambda ctx, x: x.tanh(), X), "y = tanh(x)", "grad_output * (1 - tanh(x)**2)"),
    "silu": (
        (lambda ctx, x: F.silu(x), X),
        "y = silu(x)",
        "grad_output * sigmoid(x) * (1 + x * (1 - sigmoid(x)))",
    ),
    "gelu": (
        (lambda ctx, x: F.gelu(x), X),
        "y = gelu(x)",
        "grad_output * ((1 + erf(x / 2**0.5)) / 2 + x * exp(-(x**2) / 2) / (2 * pi)**0.5)",
    ),
    "elu": ((lambda ctx, x: F.elu(x), X), "y = elu(x)", "where(x > 0, grad_output, grad_output * exp(x))"),
    "leaky": (
        (lambda ctx, x: F.leaky_relu(x, 0.1), X),
        "y = leaky_relu(x, 0.1)",
        "where(x > 0, grad_output, 0.1 * grad_output)",
    ),
    "softplus": ((lambda ctx, x: F.softplus(x), X), "y = softplus(x)", "grad_output * sigmoid(x)"),
    "log softmax": (
        (lambda ctx, x: torch.log_softmax(x, 1), X),
        "y = log_softmax(x, 1)",
        "grad_output - exp(log_softmax(x, 1)) * grad_output.sum(1, keepdim=True)",
    ),
    "several outputs": (
        (lambda ctx, x, w: (x @ w, x.sum()), X, W),
        "y0 = x @ w\ny1 = x.sum()",
        "grad_output_1 + grad_output_0 @ w.T",
        "x.T @ grad_output_0",
    ),
    "in place on what is its own": (
        (lambda ctx, x: (x * 2).add_(1).mul_(3), X),
        "y = 3 * (2 * x + 1)",
        "6 * grad_output",
    ),
    "the identity": ((lambda ctx, x: x.view_as(x), X), "y = x", "grad_output"),
    "an input that nothing depends on": ((lambda ctx, x, y: x * 1, X, Y), "output = x", "grad_output", "0"),
    "the branch that was taken": (
        (lambda ctx, x: x * 2 if x.sum() > 0 else x * 3, X),
        "y = 2 * x",
        "2 * grad_output",
    ),
    "a mask": (
        (lambda ctx, x, m: x.masked_fill(m, 0.0), X, X > 0),
        "y = x.masked_fill(m, 0)",
        "grad_output.masked_fill(m, 0)",
    ),
    "weights that the forward makes": (
        (lambda ctx, x: x * torch.linspace(0, 1, 3, dtype=x.dtype), X),
        "y = x * linspace(0, 1, 3)",
        "grad_output * linspace(0, 1, 3)",
    ),
    "a mask as numbers": (
        (lambda ctx, x: (x > 0).float() * x, X),
        "y = (x > 0).float() * x",
        "grad_output * (x > 0).float()",
    ),
    "a negative mean": (
        (lambda ctx, mu, logvar: -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()), X, Y),
        "y = -0.5 * (logvar + 1 - mu**2 - exp(logvar)).sum()",
        "grad_output * mu",
        "0.5 * grad_output * exp(logvar) - 0.5 * grad_output",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_forward_and_gradients_read_as_formulas(case):
    (forward, *args), *expected = WRITTEN[case]  # type: ignore[str-unpack]
    assert list(lines(forward, *args)) == expected


def test_what_is_long_takes_several_lines_and_the_authors_names():
    forward, gradient = lines(normalised, X, 1e-5)
    assert forward.splitlines()[-1].startswith("y = ") and all(len(line) <= 120 for line in gradient.splitlines())
    assert "eps" in forward and "grad_output" in gradient and len(gradient.splitlines()) > 1


def test_a_number_that_decides_a_branch_is_written_as_it_is():
    def forward(ctx, x, power):
        return x ** math.floor(power)

    assert lines(forward, Y, 3.0) == ("y = x**3", "3 * grad_output * x**2")


def test_defaults_of_a_forward_with_setup_context_count():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=3.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor, None

    formula = read_off(Scaled, (X,), (True,))
    assert (formula.forward, formula.gradients) == (("y = x * factor",), {0: ("grad_output * factor",)})


REFUSED = {
    "a number taken from a tensor": (lambda ctx, x: x / x.max().item(), X),
    "NumPy": (lambda ctx, x: torch.from_numpy(x.detach().numpy() ** 2), X),
    "a number by NumPy": (lambda ctx, x: x / float(x.detach().numpy().max()), X),
    "random numbers": (lambda ctx, x: F.dropout(x, 0.5, True), X),
    "an input written to": (lambda ctx, x: x.detach().mul_(2), X),
    "very many operations": (lambda ctx, x: sum((x * i for i in range(300)), x), X),
    "a variable called like a function": (lambda ctx, exp: torch.exp(exp), X),
    "no public name": (lambda ctx, x, t: F.cross_entropy(x, t), X, torch.tensor([0, 1, 2, 1])),
    "several tensors in one argument": (lambda ctx, *xs: xs[0] * xs[1], X, Y),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_said_of_what_has_no_formula(case):
    with pytest.raises(NoFormula):
        read(*REFUSED[case])


def test_a_gradient_that_is_no_derivative_is_left_out():
    formula = read(lambda ctx, x: x * x.detach(), X)
    assert formula.forward == ("y = x * x",) and formula.gradients == {}


def test_a_gradient_without_a_public_name_costs_no_other_its_own():
    formula = read(lambda ctx, x, w: x[1:] @ w, X, W)
    assert formula.forward == ("y = x[1:] @ w",) and formula.gradients == {1: ("x[1:].T @ grad_output",)}


def test_the_arguments_stay_as_they_are():
    x, before = X.clone().requires_grad_(), X.clone()
    read_off(function(swish), (x, 1.5), (True, False))
    assert torch.equal(x, before) and x.grad is None and x.requires_grad
