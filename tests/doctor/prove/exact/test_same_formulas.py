"""What is equal as a real formula is found equal, at the price of no rounding; what is not, however close, is not."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import Function

from gradwright.doctor.prove.exact import same_formulas
from gradwright.ground.torch_versions.ties import find_ties


def numbers(*shape):
    """Neither small integers nor ties, but for a zero and a two: at two, x * x is 2 * x."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x.view(-1)[:2] = torch.tensor([0.0, 2.0])
    return x


def real(args):
    return tuple(isinstance(one, torch.Tensor) and one.is_floating_point() for one in args)


def compared(original, candidate, *args):
    return same_formulas(original, candidate, [args], [real(args)], seconds=60)


def elements(body):
    """A function that loops over the elements of x, with ``body`` for out[r, c]."""
    lines = "".join(f"            {line}\n" for line in body.split("\n"))
    text = "def loop(x):\n    out = torch.zeros_like(x)\n    for r in range(len(x)):\n"
    text += f"        for c in range(x.shape[1]):\n{lines}    return out\n"
    names = {"torch": torch, "math": math}
    exec(text, names)
    return names["loop"]


SQUARE = elements("out[r, c] = x[r, c] * x[r, c]")
RELU = elements("if x[r, c] > 0:\n    out[r, c] = x[r, c]")
AT_LEAST = elements("if x[r, c] >= 0:\n    out[r, c] = x[r, c]")
# At its bound torch's clamp has the gradient of the one up to 2.13, and of the other from 2.14 on.
LIKE_CLAMP, UNLIKE_CLAMP = (AT_LEAST, RELU) if find_ties().passes_at_numbers else (RELU, AT_LEAST)
HUBER = elements("d = x[r, c]\nout[r, c] = 0.5 * d * d if abs(d) <= 1 else abs(d) - 0.5")


def row_maxima(x):
    found = []
    for row in x:
        best = row[0]
        for element in row[1:]:
            if element > best:
                best = element
        found.append(best)
    return torch.stack(found)


def softmax(x):
    out = torch.zeros_like(x)
    for i in range(len(x)):
        total: Any = 0.0
        for j in range(x.shape[1]):
            out[i, j] = torch.exp(x[i, j] - x[i].max())
            total = total + torch.exp(x[i, j] - x[i].max())
        out[i] = out[i].clone() / total
    return out


def product(a, b):
    out = torch.zeros(a.shape[0], b.shape[1])
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


def convolved(x, w):
    out = torch.zeros(x.shape[0], w.shape[0], x.shape[2] - 1, x.shape[3] - 1)
    for n in range(x.shape[0]):
        for f in range(w.shape[0]):
            for i in range(out.shape[2]):
                for j in range(out.shape[3]):
                    out[n, f, i, j] = (x[n, :, i : i + 2, j : j + 2] * w[f]).sum()
    return out


def histogram(x, index):
    out = torch.zeros(3)
    for k in range(len(index)):
        out[index[k]] += x[k]
    return out


def first_of_duplicates(x, index):
    out = torch.zeros(3)
    out[index] = out[index] + x
    return out


def distances(x, y):
    return torch.stack([torch.stack([((a - b) ** 2).sum() for b in y]) for a in x])


def windows(x):
    return torch.stack([x[:, i : i + 2].sum(1) for i in range(x.shape[1] - 1)], 1)


def normalised(x):
    return torch.stack([(c - c.mean()) / torch.sqrt(c.var(unbiased=False) + 1e-5) for c in x.unbind(1)], 1)


def shifted_row(x):
    x[0] = x[1] * 2


INDEX = torch.tensor([0, 1, 1, 2, 0, 0])
X, A, B, V = numbers(3, 4), numbers(3, 4), numbers(4, 2), numbers(6)

EQUAL = {
    "a square": (SQUARE, lambda x: x**2, X),
    "a guard as where": (RELU, lambda x: torch.where(x > 0, x, 0), X),
    "relu": (RELU, torch.relu, X),
    "clamp's gradient at a tie": (LIKE_CLAMP, lambda x: x.clamp(min=0), X),
    "Huber": (HUBER, lambda x: torch.where(x.abs() <= 1, 0.5 * x * x, x.abs() - 0.5), X),
    "a first-wins maximum": (row_maxima, lambda x: x.max(1).values, X.round()),
    "a softmax, shifted": (softmax, lambda x: torch.exp(x) / torch.exp(x).sum(1, keepdim=True), X[:2]),
    "torch's softmax": (softmax, lambda x: torch.softmax(x, 1), X[:2]),
    "a matrix product": (product, lambda a, b: a @ b, A, B),
    "einsum": (product, lambda a, b: torch.einsum("ik,kj->ij", a, b), A, B),
    "a sum in another order": (lambda x: sum(r.sum() for r in x), lambda x: x.flip(0).sum(0).sum(), X),
    "a convolution": (convolved, F.conv2d, numbers(1, 2, 3, 3), numbers(2, 2, 2, 2)),
    "index_add": (histogram, lambda x, i: torch.zeros(3).index_add(0, i, x), V, INDEX),
    "bincount": (lambda x, i: histogram(x.detach(), i), lambda x, i: torch.bincount(i, x.detach()), V, INDEX),
    "distances by products": (
        distances,
        lambda x, y: (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T,
        X,
        X + 1,
    ),
    "windows": (windows, lambda x: x.unfold(1, 2, 1).sum(-1), X),
    "batch norm": (normalised, lambda x: F.batch_norm(x, None, None, training=True, eps=1e-5), X),
    "cumulative sums": (lambda x: torch.stack([x[: k + 1].sum(0) for k in range(3)]), lambda x: x.cumsum(0), X),
    "cumulative products": (lambda x: torch.stack([x[: k + 1].prod() for k in range(6)]), lambda x: x.cumprod(0), V),
    "vmap": (
        lambda x: torch.stack([torch.tanh(r).sum() for r in x]),
        lambda x: torch.vmap(lambda r: torch.tanh(r).sum())(x),
        X,
    ),
    ".item()": (elements("v = x[r, c].item()\nout[r, c] = v * v + 0.1"), lambda x: x.detach() ** 2 + 0.1, X),
    "math.exp": (elements("out[r, c] = 1 / (1 + math.exp(-x[r, c].item()))"), lambda x: x.detach().sigmoid(), X),
    ".tolist()": (lambda x: torch.tensor([v * 2 for v in x[0].tolist()]), lambda x: 2 * x[0].detach(), X),
    "a vector times a matrix": (lambda x, b: torch.stack([r @ b for r in x]), lambda x, b: x @ b, A, B),
    "a rounded constant": (lambda x: x.sum() * (1.0 / 12), lambda x: x.mean(), X),
    "writing into the argument": (shifted_row, lambda x: x.__setitem__(0, x[1] + x[1]), X),
    "integers": (lambda x: torch.tensor([sum(1 for v in r if v > 0) for r in x]), lambda x: (x > 0).sum(1), X),
    "chosen elements": (lambda x: torch.stack([v for r in x for v in r if v > 0]), lambda x: x[x > 0], X),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_found_equal(name):
    found = compared(*EQUAL[name])
    assert found.verdict == "equal", found.told
    assert len(found.shapes) == 1


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangent


class TwiceWrong(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 3 * x * cotangent


class ByItem(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        for r in range(len(x)):
            for c in range(x.shape[1]):
                result[r, c] = math.exp(x[r, c].item()) / 3 * cotangent[r, c].item() * x[r, c].item()
        return result


class ByExp(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return x * cotangent * x.exp() / 3


class Negated(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return -2 * x * cotangent


class Detached(Square):
    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * cotangent


DIFFERENT = {
    "an index shifted by one": (SQUARE, lambda x: x.roll(1, 1) ** 2, "output 0", X),
    "2 * x for x * x": (SQUARE, lambda x: 2 * x, "output 0", numbers(2, 2)),
    "a wrong sign": (SQUARE, lambda x: -(x**2), "output 0", X),
    "a term far below rounding": (SQUARE, lambda x: x * x + 1e-15 * x, "close to it", X),
    ">= at a tie": (RELU, lambda x: torch.where(x >= 0, x, 0), "gradient", X),
    "clamp's gradient at a tie": (UNLIKE_CLAMP, lambda x: x.clamp(min=0), "gradient", X),
    "a dropped guard": (RELU, lambda x: x, "output 0", X),
    "a maximum that shares ties": (row_maxima, lambda x: x.amax(1), "gradient", X.round()),
    "dropped duplicates": (histogram, first_of_duplicates, "output 0", V, INDEX),
    "another axis": (softmax, lambda x: torch.softmax(x, 0), "output 0", X),
    "a transposed product": (product, lambda a, b: (a @ b).flip(0), "output 0", A, B),
    "a triangle without its diagonal": (
        lambda x: sum(x[i, j] for i in range(3) for j in range(4) if j >= i),
        lambda x: x.triu(1).sum(),
        "output 0",
        X,
    ),
    "a detached input": (SQUARE, lambda x: x * x.detach(), "gradient", X),
    "a wrong backward": (Square.apply, TwiceWrong.apply, "the gradient", X),
    "a backward of the wrong sign": (Square.apply, Negated.apply, "the gradient", X),
    "a broken second order": (Square.apply, Detached.apply, "second-order", X),
    "an argument left as it was": (shifted_row, lambda x: None, "afterwards", X),
    "NaN where there was a gradient": (
        elements("if x[r, c] > 0:\n    out[r, c] = torch.sqrt(x[r, c])"),
        lambda x: torch.where(x > 0, torch.sqrt(x), 0),
        "nan",
        X,
    ),
    "another shape": (SQUARE, lambda x: (x**2)[:1], "shape", X),
    "another integer": (lambda x: x.argmax(1), lambda x: x.argmin(1), "integers", X),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_planted_fault_is_found_different(name):
    original, candidate, word, *args = DIFFERENT[name]
    found = compared(original, candidate, *args)
    assert found.verdict == "different", found
    assert word in found.told
    assert found.shapes == ()


NOT_EXAMINED = {
    "random numbers": (lambda x: x + torch.rand(4), lambda x: x + torch.rand(4), "random"),
    "NumPy": (lambda x: torch.from_numpy(x.detach().numpy() * 2), lambda x: 2 * x, "NumPy"),
    "an identity of sqrt": (lambda x: torch.sqrt(x * x) ** 2, lambda x: x * x, "identity of sqrt"),
    "an operation unknown here": (lambda x: torch.cdist(x, x), lambda x: torch.cdist(x, x), "cdist"),
    "a tensor from outside": (lambda x: OUTSIDE.add_(x), lambda x: OUTSIDE.add_(x), "writes into"),
    "a row of a tensor from outside": (lambda x: OUTSIDE[0].copy_(x[0]), lambda x: x[0], "writes into"),
    "an original that raises": (lambda x: x.missing, lambda x: x, "the original raised AttributeError"),
    "a candidate that raises": (lambda x: x, lambda x: x.missing, "the candidate raised AttributeError"),
}
OUTSIDE: torch.Tensor = torch.zeros(3, 4)


@pytest.mark.parametrize("name", NOT_EXAMINED)
def test_what_can_not_be_decided_is_not_examined_and_says_why(name):
    original, candidate, word = NOT_EXAMINED[name]
    found = compared(original, candidate, X)
    assert found.verdict == "not examined"
    assert word in found.told
    assert not OUTSIDE.any()


def test_no_time_is_told():
    found = same_formulas(SQUARE, SQUARE, [(X,)], [(True,)], seconds=0)
    assert (found.verdict, found.told) == ("not examined", "no time was left to evaluate it exactly")


def test_the_shapes_are_told_one_by_one():
    found = same_formulas(SQUARE, torch.square, [(X,), (X[:0],), (numbers(1, 5),)], [(True,)] * 3)
    assert found.shapes == ("float32 [3, 4]", "float32 [0, 4]", "float32 [1, 5]")


def test_a_coincidence_of_floats_is_no_equality():
    found = same_formulas(SQUARE, lambda x: 2 * x, [(torch.full((2, 2), 2.0),)], [(False,)])
    assert found.verdict == "different"


def test_a_gradient_that_nobody_wants_is_not_compared():
    found = same_formulas(SQUARE, lambda x: x.detach() ** 2, [(X,)], [(False,)])
    assert found.verdict == "equal"


def test_numbers_are_remembered_in_a_backward_too():
    assert compared(ByItem.apply, ByExp.apply, X).verdict == "equal"
    assert compared(ByItem.apply, Square.apply, X).verdict == "different"


def test_no_pointer_reaches_what_would_follow_it():
    pointers = []
    found = compared(SQUARE, lambda x: pointers.append(x.data_ptr()), X)
    assert found.verdict == "not examined"
    assert "memory as it lies" in found.told
    assert pointers == []


def test_the_arguments_and_the_module_math_are_left_as_they_were():
    before, exp = X.clone(), math.exp
    compared(shifted_row, shifted_row, X)
    compared(EQUAL["math.exp"][0], SQUARE, X)
    assert torch.equal(X, before)
    assert math.exp is exp
    assert not X.requires_grad
