"""What the contract check finds before the engine repairs it, that it alone finds it, and what it leaves alone."""

import pytest
import torch

import gradwright as gw
from gradwright.checking.checks.contract import CHECK
from gradwright.checking.problem import pose
from gradwright.checking.report import Finding, NotChecked

INDICES = torch.tensor([2, 0])


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def answers(subject, *args):
    return list(CHECK.run(pose(subject, args)))


def returning(gradients):
    """x * 2, with ``gradients(cotangent)`` for what its backward returns for x, an index tensor and a number."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, index, factor):
            return x * 2

        @staticmethod
        def backward(ctx, cotangent):
            return gradients(cotangent * 2)

    return Doubled


FAULTS = [
    ("too few", lambda g: g, "GW201", "number of gradients", "error", ""),
    ("a list", lambda g: [g, None, None], "GW201", "number of gradients", "error", ""),
    ("too many", lambda g: (g, None, None, g), "GW201", "number of gradients", "error", ""),
    ("one for a number", lambda g: (g, None, g), "GW201", "number of gradients", "error", "factor"),
    ("one for indices", lambda g: (g, torch.ones(2), None), "GW201", "number of gradients", "warning", "index"),
    ("no tensor", lambda g: (2.0, None, None), "GW212", "dtype", "error", "x"),
    ("too short", lambda g: (g[:2], None, None), "GW203", "shape", "error", "x"),
    ("a total", lambda g: (g.sum(), None, None), "GW203", "shape", "error", "x"),
    ("not summed", lambda g: (g.expand(4, 3) / 4, None, None), "GW203", "shape", "warning", "x"),
    ("wide", lambda g: (g.double(), None, None), "GW212", "dtype", "warning", "x"),
    ("rounded", lambda g: (g.long(), None, None), "GW212", "dtype", "warning", "x"),
    ("complex", lambda g: (g.to(torch.complex64), None, None), "GW212", "dtype", "error", "x"),
    ("elsewhere", lambda g: (g.to("meta"), None, None), "GW212", "device", "error", "x"),
]


@pytest.mark.parametrize("row", FAULTS, ids=[row[0] for row in FAULTS])
def test_what_the_engine_would_repair_or_raise_about_is_named(row):
    _, gradients, code, cause, severity, of = row
    (found,) = answers(returning(gradients), draw(3), INDICES, 2.0)
    assert (found.code, found.cause, found.severity, found.input) == (code, cause, severity, of)
    assert found.evidence["returned"] in found.why and found.evidence["expected"] in found.why
    assert found.do


@pytest.mark.parametrize("gradients", [pytest.param(row[1], id=row[0]) for row in FAULTS])
def test_the_engine_raises_about_what_is_called_an_error_and_only_about_that(gradients):
    function, x = returning(gradients), draw(3).requires_grad_()
    (found,) = answers(function, x, INDICES, 2.0)
    if found.severity == "error":
        with pytest.raises((RuntimeError, TypeError)):
            torch.autograd.grad(function.apply(x, INDICES, 2.0), x, torch.ones(3))
    else:
        (repaired,) = torch.autograd.grad(function.apply(x, INDICES, 2.0), x, torch.ones(3))
        assert repaired.shape == x.shape and repaired.dtype == x.dtype


@pytest.mark.parametrize("label", ["too few", "too short", "not summed", "wide", "one for a number", "no tensor"])
def test_a_function_inside_a_callable_is_looked_at(label):
    gradients, code, cause, severity = next(row[1:5] for row in FAULTS if row[0] == label)
    function = returning(gradients)
    (found,) = answers(lambda x: function.apply(x.exp(), INDICES, 2.0).sum(), draw(3))
    assert (found.code, found.cause, found.severity) == (code, cause, severity)


class Bias(torch.autograd.Function):
    """x + bias; the gradient of the bias is not summed over the batch, which the engine does in silence."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, cotangent


def test_what_broadcasting_explains_is_told_and_left_to_the_engine():
    report = gw.check(Bias, draw(4, 3), draw(3, seed=1))
    assert [(found.check, found.severity) for found in report.findings] == [(CHECK.title, "info")]
    assert report.ok


class Tiled(Bias):
    @staticmethod
    def backward(ctx, cotangent):
        return cotangent, (cotangent.sum(0) / 2).expand(2, -1)


def test_only_this_check_finds_a_shape_that_the_engine_sums_and_nothing_explains():
    report = gw.check(Tiled, draw(4, 3), draw(3, seed=1))
    assert [(found.check, found.severity) for found in report.findings] == [(CHECK.title, "warning")]


def test_only_this_check_finds_a_gradient_for_indices():
    report = gw.check(returning(lambda g: (g, torch.ones(2), None)), draw(3), INDICES, 2.0)
    assert {found.check for found in report.findings} == {CHECK.title}


# --- what it leaves alone --------------------------------------------------------------------------------------------


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, index):
        ctx.save_for_backward(index)
        ctx.rows = weight.shape[0]
        return weight[index]

    @staticmethod
    def backward(ctx, cotangent):
        (index,) = ctx.saved_tensors
        shape = (ctx.rows, cotangent.shape[1])
        return torch.sparse_coo_tensor(index[None], cotangent, shape), None


class Defaulted(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=2.0, bias=None):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent * ctx.factor, None, None


class Vjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.reshape(()) * 2

    @staticmethod
    def vjp(ctx, cotangent):
        return cotangent.reshape(1) * 2


class Multiplied(torch.autograd.Function):
    """Returns the gradient of an input that nobody wants, too."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, cotangent):
        x, w = ctx.saved_tensors
        return cotangent * w, cotangent * x


@pytest.mark.parametrize(
    ("subject", "args"),
    [
        (returning(lambda g: (g, None, None)), (draw(3), INDICES, 2.0)),
        (returning(lambda g: (g, None, None, None, None)), (draw(3), INDICES, 2.0)),
        (returning(lambda g: (None, None, None)), (draw(3), INDICES, 2.0)),
        (Embedding, (draw(4, 2), INDICES)),
        (Defaulted, (draw(3),)),
        (Vjp, (draw(1),)),
        (Multiplied, (draw(3).requires_grad_(), draw(3, seed=1))),
        (Multiplied, (draw(3, dtype=torch.complex64), draw(3, seed=1, dtype=torch.complex64))),
        (torch.nn.Linear(3, 2), (draw(4, 3),)),
        (lambda x: x.double() * 2, (draw(3),)),
    ],
)
def test_what_the_engine_takes_as_it_is_stays_silent(subject, args):
    assert answers(subject, *args) == []


def test_a_backward_that_raises_is_a_fault_with_its_line():
    (found,) = answers(returning(lambda g: 1 / 0), draw(3), INDICES, 2.0)
    assert (found.code, found.severity) == ("GW215", "error")
    assert "division by zero" in found.why and "(line " in found.why


def test_only_this_check_finds_a_backward_that_raises():
    report = gw.check(returning(lambda g: 1 / 0), draw(3), INDICES, 2.0)
    assert {found.check for found in report.findings} == {CHECK.title}


def refuse(cotangent):
    raise NotImplementedError("no gradient yet")


def test_a_backward_that_says_that_it_has_no_gradient_is_honest():
    (line,) = answers(returning(refuse), draw(3), INDICES, 2.0)
    assert isinstance(line, NotChecked) and "no gradient yet" in line.why


def test_the_node_is_left_as_it_was():
    nodes = []

    class Remembering(Multiplied):
        @staticmethod
        def forward(ctx, x, w):
            nodes.append(ctx)
            return Multiplied.forward(ctx, x, w)

    assert not any(isinstance(answer, Finding) for answer in answers(Remembering, draw(3), draw(3, seed=1)))
    assert all("apply" not in vars(node) for node in nodes)
