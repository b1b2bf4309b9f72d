"""A chain that is a function of torch's, however it is written, becomes its call; what differs anywhere stays."""

import ast
from dataclasses import replace

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import (
    PATH,
    added_lines,
    assert_same,
    namespace,
    seen_of,
    site_of,
    source_of,
)

from gradwright.doctor.prove import Proved, prove_region
from gradwright.doctor.rewrite import propose_loop
from gradwright.doctor.rewrite.fusing.known import recognised
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.entered import LoopUse
from gradwright.doctor.source.expressions.formulas import read_formula
from gradwright.doctor.source.statements import Origins
from gradwright.ground import clock


def function_of(formula):
    node = ast.parse(formula, mode="eval").body
    read = read_formula(node, Origins(ast.parse("import torch")), 1)
    match = recognised(read) if read is not None else None
    return f"{match.known.name} {match.told}".strip() if match else ""


WRITINGS = {
    "(p - q) ** 2": "mse_loss",
    "p * p - 2 * p * q + q * q": "mse_loss",
    "torch.where(torch.abs(p - q) <= 1, 0.5 * (p - q) ** 2, torch.abs(p - q) - 0.5)": "smooth_l1_loss",
    "torch.where(torch.abs(q - p) > 1.0, torch.abs(p - q) - 0.5, (p - q).square() / 2)": "smooth_l1_loss",
    "torch.where(torch.abs(p - q) < 0.5, (p - q) ** 2, torch.abs(p - q) - 0.25)": "smooth_l1_loss beta=0.5",
    "torch.where(torch.abs(p - q) < 0.3, 0.5 * (p - q) ** 2, 0.3 * (torch.abs(p - q) - 0.15))": "huber_loss delta=0.3",
    "torch.where(torch.abs(p - q) < 2, (p - q) * (p - q) / 2, 2 * torch.abs(p - q) - 2)": "huber_loss delta=2.0",
    "torch.where(v > 0, v, 0.2 * v)": "leaky_relu negative_slope=0.2",
    "torch.where(v > 0, v, v / 50)": "",  # the number does not stand there
    "torch.where(v <= 0, torch.expm1(v), v)": "elu",
    "torch.where(v > 0, v, 1.5 * (torch.exp(v) - 1))": "elu alpha=1.5",
    "v * torch.sigmoid(v)": "silu",
    "v / (1 + torch.exp(-v))": "silu",
}
OTHERS = {
    "another kink than the slope's": "torch.where(torch.abs(p - q) <= 2, 0.5 * (p - q) ** 2, torch.abs(p - q) - 0.5)",
    "a jump": "torch.where(torch.abs(p - q) <= 1, 0.5 * (p - q) ** 2, torch.abs(p - q))",
    "half of it": "0.5 * (p - q) ** 2",
    "three tensors": "(p - q) ** 2 * w",
    "one tensor of the two": "torch.where(torch.abs(d) <= 1, 0.5 * d ** 2, torch.abs(d) - 0.5)",
    "another slope at 0": "torch.where(v >= 0, v, 0.2 * v)",
    "the threshold of softplus": "torch.log(1 + torch.exp(v))",
    "no slope at all": "torch.sin(v) * 0 + 1",
    "numbers alone in a function": "torch.exp(2) * v",
}


@pytest.mark.parametrize("formula", WRITINGS)
def test_a_function_is_known_by_its_values_however_it_is_written(formula):
    assert function_of(formula) == WRITINGS[formula]


@pytest.mark.parametrize("formula", OTHERS.values(), ids=list(OTHERS))
def test_what_has_other_values_or_slopes_at_any_point_is_another(formula):
    assert function_of(formula) == ""


def vectors(n):
    return [torch.linspace(-3, 3, n), torch.linspace(2, -1, n).sin()]


HUBER = """
    {before}
    for i in range(len(x)):
        d = abs(x[i] - y[i])
        if d <= 1.0:
            total = total + 0.5 * d ** 2
        else:
            total = total + d - 0.5
    {after}
"""


def proposals(text, args):
    site = site_of(text)
    return propose_loop(PATH, text, site, seen_of(text, site, args))[0]


def huber(before="total = 0.0", after="return total / len(x)"):
    return source_of(HUBER.format(before=before, after=after.replace("\n", "\n    ")), "x, y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (huber(), "return F.smooth_l1_loss(x, y)"),
        (huber(after="return total / x.numel()"), "return F.smooth_l1_loss(x, y)"),
        (huber("n = x.shape[0]\n    total = 0.0", "return total / n"), "return F.smooth_l1_loss(x, y)"),
        (huber(after="return total"), 'total = F.smooth_l1_loss(x, y, reduction="sum")'),
        (huber(after="return total / 7"), 'total = F.smooth_l1_loss(x, y, reduction="sum")'),
        (huber(after="z = total / len(x)\nreturn z + total"), 'total = F.smooth_l1_loss(x, y, reduction="sum")'),
        (huber("total = 1.5"), 'total = total + F.smooth_l1_loss(x, y, reduction="sum")'),
    ],
)
def test_a_loop_becomes_a_call_and_its_mean_one_too(text, expected):
    first, plain, *_ = proposals(text, vectors(6))
    assert added_lines(first) == expected
    assert "torch.where" in added_lines(plain)
    for n in (6, 2, 1):
        assert_same(text, first.new_text, vectors(n))
    assert_same(text, first.new_text, [torch.tensor([1.0, -1.0, 0.0, 5.0]), torch.zeros(4)])


def test_lines_after_the_loop_and_names_stand_as_they_did():
    text = huber(after="# the mean\nreturn total / len(x)")
    assert added_lines(proposals(text, vectors(6))[0]) == 'total = F.smooth_l1_loss(x, y, reduction="sum")'
    text = source_of(
        """
        rows = torch.empty_like(x)
        for i in range(len(x)):
            rows[i] = x[i] * torch.sigmoid(x[i])  # as in the paper
        return rows
        """,
        "x",
    )
    first, *_ = proposals(text, [torch.randn(5)])
    assert added_lines(first) == "rows = F.silu(x)  # as in the paper"
    assert_same(text, first.new_text, [torch.randn(5)])


def test_one_that_is_longer_is_read_as_far_as_the_loop_went():
    args = [torch.randn(5), torch.randn(7)]
    first, *_ = proposals(huber(), args)
    assert added_lines(first) == "return F.smooth_l1_loss(x, y[:len(x)])"
    assert_same(huber(), first.new_text, args)


SUM_OF_MATRIX = """
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += (x[i, j] - y[i, j]) ** 2
    return s / {count}
"""


def test_the_length_of_a_matrix_is_not_the_number_of_its_elements():
    args = [torch.randn(3, 4), torch.randn(3, 4)]
    by_rows, whole = (source_of(SUM_OF_MATRIX.format(count=one), "x, y") for one in ("len(x)", "x.numel()"))
    assert added_lines(proposals(by_rows, args)[0]) == 's = F.mse_loss(x, y, reduction="sum")'
    assert added_lines(proposals(whole, args)[0]) == "return F.mse_loss(x, y)"


@pytest.mark.parametrize(
    "args",
    [
        pytest.param([torch.arange(5), torch.arange(5) - 1], id="whole numbers"),
        pytest.param([torch.randn(5), torch.randn(5).double()], id="two dtypes"),
        pytest.param([torch.randn(5), 0.5], id="a number"),
    ],
)
def test_what_the_function_does_not_take_stays_array_code(args):
    loop = HUBER if torch.is_tensor(args[1]) else HUBER.replace("y[i]", "y")
    text = source_of(loop.format(before="total = 0.0", after="return total"), "x, y")
    assert all("loss" not in added_lines(one) for one in proposals(text, args))


def test_the_call_is_proved_as_any_candidate_and_a_wrong_one_rejected():
    text = huber()
    site, args = site_of(text), vectors(12)
    first, *_ = proposals(text, args)
    live = {"x": args[0].requires_grad_(), "y": args[1]}
    subject = Subject(id="loop", kind="loop", name="f", location=Location(PATH, site.line, 1))
    use = LoopUse(subject, site, PATH, entries=1, seconds=0.01, live_ins=[live], globals=namespace(text))
    found = prove_region(first, use, text, deadline=clock.now() + 20.0)
    assert isinstance(found, Proved) and not found.unsafe and found.proof.mutants_rejected >= 10
    wrong = replace(first, new_text=first.new_text.replace("loss(x, y)", "loss(x, y, beta=1.1)"))
    assert isinstance(prove_region(wrong, use, text, deadline=clock.now() + 20.0), str)
