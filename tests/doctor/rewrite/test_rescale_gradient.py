"""A literal factor is mended where one is there; a plain number is put in where none is; nothing else is guessed."""

import pytest

from gradwright.doctor.rewrite import propose
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location

CLASS = """import torch


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
{body}
"""


def proposals(body, *, index=1, factor=0.5, cause="constant factor", line=5, text=None):
    text = text or CLASS.format(body="\n".join("        " + one for one in body.split("\n")))
    fact = GradientVerdict(
        id="v", subject="s", specimen="", input_index=index, input_name="w", verdict="wrong", cause=cause, factor=factor
    )
    finding = Finding(
        "GW101", "gradient-value-wrong", "gradient", "error", "Layer", Location("net.py", line), "", "", evidence=("v",)
    )
    return propose("mend_gradient", finding, (fact,), text)


def added(proposal):
    lines = proposal.diff.split("\n")
    return "\n".join(line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++"))


MENDED = {
    "a half goes": ("return g @ w.t(), 0.5 * x.t() @ g", 0.5, "return g @ w.t(), x.t() @ g"),
    "a half behind goes": ("return g @ w.t(), x.t() @ g * 0.5", 0.5, "return g @ w.t(), x.t() @ g"),
    "a divisor goes": ("return g @ w.t(), (x.t() @ g) / 2", 0.5, "return g @ w.t(), (x.t() @ g)"),
    "4 becomes 2": ("return g, w * 4 * g", 2.0, "return g, w * 2 * g"),
    "2 goes": ("return g, 2 * w * g", 2.0, "return g, w * g"),
    "a divisor is doubled": ("return g, w * g / 2", 2.0, "return g, w * g / 4"),
    "3 becomes 1.5": ("return g, 3 * w * g", 2.0, "return g, 1.5 * w * g"),
    "a measured factor is rounded": ("return g, 0.1 * w * g", 0.10000003, "return g, w * g"),
    "a name is followed": ("gw = 0.5 * (x.t() @ g)\nreturn g @ w.t(), gw", 0.5, "gw = (x.t() @ g)"),
    "a name after None is followed": (
        "gx = gw = None\nif ctx.needs_input_grad[1]:\n    gw = 0.25 * x.t() @ g\nreturn gx, gw",
        0.25,
        "gw = x.t() @ g",
    ),
    "a factor inside a call is found": (
        "return g, torch.matmul(0.5 * x.t(), g)",
        0.5,
        "return g, torch.matmul(x.t(), g)",
    ),
    "a factor before a sum is found": ("return g, (0.5 * x * g).sum(0)", 0.5, "return g, (x * g).sum(0)"),
    "a forgotten 2 is put in": ("return g, w * g", 0.5, "return g, 2 * w * g"),
    "a forgotten half is put in": ("return g, w * g", 2.0, "return g, 0.5 * w * g"),
    "a forgotten third is put in": ("return g, w * g", 3.0, "return g, w * g / 3"),
    "a sum gets parentheses": ("return g, w + g", 0.5, "return g, 2 * (w + g)"),
    "a name that is read twice is scaled where it is returned": ("s = w * g\nreturn s, s", 0.5, "return s, 2 * s"),
}


@pytest.mark.parametrize("name", MENDED)
def test_the_first_proposal_mends_the_factor(name):
    body, factor, expected = MENDED[name]
    found = proposals(body, factor=factor)
    assert found and added(found[0]) == expected


FLIPPED = {
    "a minus goes": ("return g, -(x.t() @ g)", "return g, (x.t() @ g)"),
    "a minus inside goes": ("return g, x.t() @ -g", "return g, x.t() @ g"),
    "a negative literal becomes positive": ("return g, -2 * w * g", "return g, 2 * w * g"),
    "a difference is turned": ("return g, g * (w - x)", "return g, g * (x - w)"),
    "a difference of sums is turned": ("return g, a + b - c", "return g, c - (a + b)"),
    "neg goes": ("return g, (w * g).neg()", "return g, (w * g)"),
    "a missing minus is put in": ("return g, w * g", "return g, -w * g"),
}


@pytest.mark.parametrize("name", FLIPPED)
def test_the_first_proposal_flips_the_sign(name):
    body, expected = FLIPPED[name]
    found = proposals(body, cause="sign", factor=-1.0)
    assert found
    assert added(found[0]).replace("-(w * g)", "-w * g") == expected.replace("-(w * g)", "-w * g")


def test_a_sole_value_is_the_gradient_of_the_first_input():
    (first, *_) = proposals("return 0.5 * g", index=0)
    assert added(first) == "return g"


UNKNOWABLE = {
    "a factor that no one forgets": ("return g, w * g", 0.137),
    "a factor that may be a batch size": ("return g, w * g", 64.0),
    "a tuple made elsewhere": ("both = g, w\nreturn both", 0.5),
    "a starred tuple": ("return g, *rest", 0.5),
    "two returns": ("if w.sum() > 0:\n    return g, w * 2\nreturn g, w", 0.5),
    "too short a tuple": ("return (g,)", 0.5),
}


@pytest.mark.parametrize("name", UNKNOWABLE)
def test_what_can_not_be_known_is_not_guessed(name):
    body, factor = UNKNOWABLE[name]
    assert proposals(body, factor=factor) == ()


def test_another_cause_proposes_nothing():
    assert proposals("return g, w * g", cause="formula") == ()
    assert proposals("return g, w * g", factor=None) == ()


def test_no_class_at_the_line_proposes_nothing():
    assert proposals("return g, w * g", line=1) == ()


def test_everything_else_stays_byte_for_byte():
    text = "\ufeff" + CLASS.format(body="        return g , 0.5 * x.t( ) @ g   # half\n\tx = 1"[:45])
    text = text.replace("\n", "\r\n")
    (first, *_) = proposals("", text=text)
    assert first.new_text == text.replace("0.5 * ", "")
