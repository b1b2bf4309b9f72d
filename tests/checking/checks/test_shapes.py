"""What the sweep over shapes and options finds, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.shapes import CHECK, is_refusal
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked

Function = torch.autograd.Function


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def answers(subject, *args, level="standard", **asked):
    return list(CHECK.run(pose(subject, args, level=level, **asked)))


def found(subject, *args, **asked):
    return [answer for answer in answers(subject, *args, **asked) if isinstance(answer, Finding)]


def checks_that_find_something(subject, *args):
    return {finding.check for finding in gw.check(subject, *args).findings}


class Softmax(Function):
    """Right at every shape, along every axis."""

    @staticmethod
    def forward(ctx, x, dim):
        y = x.softmax(dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        return y * (cotangent - (y * cotangent).sum(ctx.dim, keepdim=True)), None


class SoftmaxOfTheLastAxis(Softmax):
    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        return y * (cotangent - (y * cotangent).sum(-1, keepdim=True)), None


class SquaredError(Function):
    @staticmethod
    def forward(ctx, x, target, reduction):
        ctx.save_for_backward(x, target)
        ctx.reduction = reduction
        apart = (x - target) ** 2
        return apart if reduction == "none" else getattr(apart, reduction)()

    @staticmethod
    def backward(ctx, cotangent):
        x, target = ctx.saved_tensors
        found = 2 * (x - target) * cotangent / (x.numel() if ctx.reduction == "mean" else 1)
        return found, -found, None


class AlwaysTheMean(SquaredError):
    @staticmethod
    def backward(ctx, cotangent):
        x, target = ctx.saved_tensors
        found = 2 * (x - target) * cotangent / x.numel()
        return found, -found, None


class SquareOfSymmetric(Function):
    """x @ x, with a gradient that forgets its transposes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return cotangent @ x + x @ cotangent


class Twice(Function):
    """2 x, whose backward squeezes: no axis where there is none of size 1."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return (2 * cotangent).squeeze()


class RowSums(Function):
    """Sums over the last axis; what is squeezed does not expand where there is one row."""

    @staticmethod
    def forward(ctx, x):
        ctx.width = x.shape[-1]
        return x.sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent.squeeze()[..., None].expand(-1, ctx.width)


class Norms(Function):
    """Norms of rows of three, whose size the backward has written into itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).sum(-1)

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangent.reshape(-1, 1).expand(-1, 3)


class SameForRowsAndColumns(Function):
    """x + its row sums; the gradient sums over columns, which is as long only where x is square."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    def backward(ctx, cotangent):
        x, y = ctx.saved_tensors
        first = cotangent @ y.mT
        return first * (x.shape[0] / x.shape[1]), x.mT @ cotangent


SPOILED = [
    pytest.param(SoftmaxOfTheLastAxis, (draw(4, 3), -1), "dim=0", "GW101", id="another axis"),
    pytest.param(AlwaysTheMean, (draw(4, 3), draw(4, 3, seed=1), "mean"), "reduction='", "GW101", id="reduction"),
    pytest.param(SquareOfSymmetric, (draw(4, 4) + draw(4, 4).mT,), "symmetric", "GW101", id="symmetric only"),
    pytest.param(Twice, (draw(4, 3),), "x is [", "GW203", id="squeeze at size 1"),
    pytest.param(RowSums, (draw(4, 3),), "raises where x is [1, 3]", "GW101", id="raises at size 1"),
    pytest.param(Norms, (draw(4, 3),), "x is [", "GW101", id="a size written down"),
    pytest.param(SameForRowsAndColumns, (draw(4, 4), draw(4, 4, seed=1)), "x is [3, 4]", "GW101", id="square only"),
]


@pytest.mark.parametrize("subject, args, where, code", SPOILED)
def test_only_the_sweep_rejects_what_is_right_in_the_call_given(subject, args, where, code):
    finding = found(subject, *args)[0]
    assert (finding.code, finding.severity) == (code, "error")
    assert where in finding.message
    assert checks_that_find_something(subject, *args) == {CHECK.title}


def test_the_message_names_the_cause_that_was_fitted():
    (finding, *_) = found(AlwaysTheMean, draw(4, 3), draw(4, 3, seed=1), "mean")
    assert finding.cause in finding.message and "right in the call that was given" in finding.why
    assert finding.evidence["shapes"] == ((4, 3), (4, 3))


class WrongEverywhere(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.saved_tensors[0]


def test_what_is_wrong_in_the_call_given_is_not_told_again():
    assert found(WrongEverywhere, draw(4, 3)) == []


class RefusesInItsBackward(Softmax):
    @staticmethod
    def backward(ctx, cotangent):
        if cotangent.shape[0] == 1:
            raise ValueError("one row is not supported")
        return Softmax.backward(ctx, cotangent)


class Modulus(Function):
    """|re + i im|, of a last axis that holds re and im; slicing takes an axis of any length from 2 on."""

    @staticmethod
    def forward(ctx, x):
        y = (x[..., 0] ** 2 + x[..., 1] ** 2).sqrt()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        x, y = ctx.saved_tensors
        return x * (cotangent / y)[..., None]


class Rotated(Function):
    """A point by a unit quaternion: right on unit quaternions, whose four numbers are no batch."""

    @staticmethod
    def forward(ctx, q, p):
        ctx.save_for_backward(q, p)
        return p + 2 * torch.linalg.cross(q[..., :3], torch.linalg.cross(q[..., :3], p) + q[..., 3:] * p)

    @staticmethod
    def backward(ctx, cotangent):
        q, _ = ctx.saved_tensors
        q = torch.cat([-q[..., :3], q[..., 3:]], -1)
        return None, Rotated.forward(ctx, q, cotangent)


class SparseTimesVector(Function):
    """A matrix in CSR form: offsets and columns are its structure, no values."""

    @staticmethod
    def forward(ctx, offsets, columns, values, x):
        rows = torch.arange(len(offsets) - 1).repeat_interleave(offsets.diff())
        ctx.save_for_backward(rows, columns, values, x)
        return torch.zeros(len(offsets) - 1, dtype=x.dtype).index_add(0, rows, values * x[columns])

    @staticmethod
    def backward(ctx, cotangent):
        rows, columns, values, x = ctx.saved_tensors
        return (
            None,
            None,
            cotangent[rows] * x[columns],
            torch.zeros_like(x).index_add(0, columns, cotangent[rows] * values),
        )


class Conv(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.conv1d(x, weight, padding=1)

    @staticmethod
    def backward(ctx, cotangent):
        x, weight = ctx.saved_tensors
        return (
            torch.nn.grad.conv1d_input(x.shape, weight, cotangent, padding=1),  # type: ignore[attr-defined]
            torch.nn.grad.conv1d_weight(x, weight.shape, cotangent, padding=1),  # type: ignore[attr-defined]
        )


class Gathered(Function):
    """Rows by a permutation, undone by its inverse: right for permutations only."""

    @staticmethod
    def forward(ctx, x, order):
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx, cotangent):
        (order,) = ctx.saved_tensors
        return cotangent[order.argsort()], None


class Doubled(Function):
    """With a switch that turns the backward off."""

    @staticmethod
    def forward(ctx, x, training):
        ctx.kept = x if training else None
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * torch.ones_like(ctx.kept) * cotangent, None


class Inverse(Function):
    """Of positive definite matrices: the gradient is that on symmetric ones."""

    @staticmethod
    def forward(ctx, x):
        y = torch.cholesky_inverse(torch.linalg.cholesky((x + x.mT) / 2))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (y,) = ctx.saved_tensors
        found = -y @ cotangent @ y
        return (found + found.mT) / 2


class StoredInFewBits(Function):
    """With a switch that stores the input in eight bits, so that the gradient is no better than those."""

    @staticmethod
    def forward(ctx, x, small):
        ctx.save_for_backward(x.to(torch.float8_e4m3fn) if small else x)
        return x**2

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * ctx.saved_tensors[0].to(cotangent.dtype) * cotangent, None


UNIT = draw(5, 4) / draw(5, 4).norm(dim=-1, keepdim=True)
CSR = (torch.tensor([0, 2, 3, 6]), torch.tensor([0, 4, 1, 0, 2, 3]))
RIGHT = [
    pytest.param(Softmax, (draw(4, 3), 1), id="softmax"),
    pytest.param(SquaredError, (draw(4, 3), draw(4, 3, seed=1), "mean"), id="squared error"),
    pytest.param(RefusesInItsBackward, (draw(4, 3), 1), id="refuses by a raise of its own"),
    pytest.param(Modulus, (draw(5, 2),), id="an axis that means something"),
    pytest.param(Modulus, (draw(2, 2),), id="an axis that means something, as long as the batch"),
    pytest.param(SparseTimesVector, (*CSR, draw(6), draw(5, seed=1)), id="a sparse matrix"),
    pytest.param(Rotated, (UNIT, draw(5, 3).requires_grad_()), id="unit quaternions"),
    pytest.param(Conv, (draw(2, 3, 6), draw(4, 3, 3)), id="convolution"),
    pytest.param(Gathered, (draw(4, 3), torch.tensor([2, 0, 3, 1])), id="a permutation"),
    pytest.param(Doubled, (draw(4, 3), True), id="a switch"),
    pytest.param(StoredInFewBits, (draw(4, 3), False), id="a lossy switch"),
    pytest.param(Inverse, (draw(3, 3) @ draw(3, 3).mT + torch.eye(3, dtype=torch.float64),), id="positive definite"),
    pytest.param(torch.nn.LayerNorm(4).double(), (draw(3, 4),), id="a module of fixed size"),
    pytest.param(lambda x: x.reshape(2, 6).sum(0) * x.numel() / 12, (draw(3, 4),), id="a size in the code"),
    pytest.param(torch.nn.functional.cross_entropy, (draw(5, 4), torch.tensor([0, 3, 1, 2, 0])), id="targets"),
]


@pytest.mark.parametrize("subject, args", RIGHT)
def test_right_ones_stay_silent(subject, args):
    assert found(subject, *args, level="full") == []


def test_a_surrogate_is_not_held_to_the_derivative_at_other_shapes():
    marked = type("Declared", (SoftmaxOfTheLastAxis,), {})
    gw.surrogate(reason="on purpose")(marked)
    assert found(marked, draw(4, 3), -1) == []


def test_a_large_call_is_made_small_first():
    assert found(Norms, draw(3000, 3))[0].evidence["shapes"][0][0] < 300
    assert found(Softmax, draw(300, 40), 1) == []


def test_a_large_call_that_can_not_be_made_small_is_told():
    (line,) = answers(lambda x: x.reshape(80, 80) * torch.arange(80), draw(6400))
    assert isinstance(line, NotChecked)


def test_a_raise_of_the_subject_itself_is_a_refusal_and_one_of_torch_is_none():
    def refuse():
        raise ValueError("no")

    def fail():
        return torch.ones(2) + torch.ones(3)

    def caught(call):
        try:
            call()
        except Exception as error:
            return error

    assert is_refusal(caught(refuse))
    assert is_refusal(NotImplementedError())
    assert not is_refusal(caught(fail))


# --- parameters as they are before the first update ------------------------------------------------------------------


def affine(of_x):
    class Affine(Function):
        @staticmethod
        def forward(ctx, x, gain, bias):
            ctx.save_for_backward(x, gain)
            return x * gain + bias

        @staticmethod
        def backward(ctx, grad_output):
            x, gain = ctx.saved_tensors
            return of_x(grad_output, gain), (grad_output * x).sum(0), grad_output.sum(0)

    return Affine


BEGUN = (torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))


def test_a_factor_that_is_one_at_the_start_is_missed_where_it_has_moved():
    (finding,) = found(affine(lambda cotangent, gain: cotangent), draw(6, 4), *BEGUN)
    assert finding.code == "GW101" and finding.input == "x"
    assert "where arg1 is not all ones" in finding.message or "where gain is not all ones" in finding.message
    assert finding.evidence["moved"]


def test_a_right_gradient_is_right_where_parameters_have_moved():
    assert not found(affine(lambda cotangent, gain: cotangent * gain), draw(6, 4), *BEGUN)


def test_what_wants_no_gradient_stays_what_it_is():
    """Ones that are a mask: no update moves them."""
    mask = torch.ones(4, dtype=torch.float64)
    given = (draw(6, 4).requires_grad_(), mask, BEGUN[1].clone().requires_grad_())
    assert not [one for one in found(affine(lambda cotangent, gain: cotangent), *given) if one.evidence.get("moved")]


def test_a_domain_that_the_start_lies_in_is_kept():
    class Root(Function):
        @staticmethod
        def forward(ctx, x, scale):
            y = x * scale.sqrt()
            ctx.save_for_backward(x, scale)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            x, scale = ctx.saved_tensors
            return grad_output * scale.sqrt(), (grad_output * x * 0.5 / scale.sqrt()).sum(0)

    assert not found(Root, draw(6, 4), torch.ones(4, dtype=torch.float64))
