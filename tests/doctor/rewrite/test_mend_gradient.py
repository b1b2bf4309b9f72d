"""What a verdict names outright is mended by the one edit that the name asks for; the right one is among the first."""

from types import SimpleNamespace

import pytest
import torch

from gradwright.doctor.rewrite import propose
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location

CLASS = """import torch


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return {forward}

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
{body}
"""

# The forward, what its backward says, what is wrong (input, cause, reason), what a line of it says when it is mended.
FAULTS = {
    "a derivative instead of a vjp": (
        "x ** 2 * w", "return 2 * x * w, x ** 2 * g", 0, "missing grad_output", "",
        "return 2 * x * w * g, x ** 2 * g",
    ),
    "a sum instead of a vjp, under a name": (
        "x ** 2 + x * w", "gx = 2 * x + w  # dy/dx\nreturn gx, x * g", 0, "missing grad_output", "",
        "gx = (2 * x + w) * g  # dy/dx",
    ),
    "the cotangent of a residual": (
        "x + x ** 2 * w", "return 2 * x * w * g, x ** 2 * g", 0, "dropped term", "the cotangent itself is missing",
        "return g + 2 * x * w * g, x ** 2 * g",
    ),
    "swapped": (
        "torch.sin(x) * w", "return torch.sin(x) * g, torch.cos(x) * w * g", 0, "swapped inputs", "",
        "return torch.cos(x) * w * g, torch.sin(x) * g",
    ),
    "the product the wrong way round": (
        "x @ w", "return g @ w.t(), g.t() @ x", 1, "transpose", "axes 0 and 1 changed places",
        "return g @ w.t(), x.t() @ g",
    ),
    "a factor that is not transposed": (
        "x @ w", "return g @ w, x.t() @ g", 0, "transpose", "that of a transposed input",
        "return g @ w.t(), x.t() @ g",
    ),
    "flipped in the forward alone": (
        "x.flip(1) * w", "return g * w, g * x.flip(1)", 0, "permutation", "flipped along axis 1",
        "return (g * w).flip(1), g * x.flip(1)",
    ),
    "an offset": (
        "x ** 2 * w", "return 2 * x * w * g + 0.1, x ** 2 * g", 0, "additive offset", "",
        "return 2 * x * w * g, x ** 2 * g",
    ),
    "an offset taken away, in parentheses": (
        "x ** 2 * w", "return (2 * x * g - 1e-3) * w, x ** 2 * g", 0, "additive offset", "",
        "return (2 * x * g) * w, x ** 2 * g",
    ),
    "the size of the cotangent": (
        "x ** 2 * w", "return 2 * x * w * g.abs(), x ** 2 * g", 0, "nonlinear in the cotangent", "",
        "return 2 * x * w * g, x ** 2 * g",
    ),
    "the square of the cotangent": (
        "x ** 2 * w", "return 2 * x * w * (g * g), x ** 2 * g", 0, "nonlinear in the cotangent", "",
        "return 2 * x * w * g, x ** 2 * g",
    ),
}  # fmt: skip


def text_of(forward, body):
    return CLASS.format(forward=forward, body="\n".join("        " + line for line in body.split("\n")))


def proposals(text, index, cause, reason=""):
    fact = GradientVerdict(
        id="v", subject="s", specimen="", input_index=index, input_name="xw"[index], verdict="wrong", cause=cause,
        reason=reason,
    )  # fmt: skip
    at = Location("net.py", 5)
    finding = Finding("GW101", "gradient-value-wrong", "gradient", "error", "Layer", at, "", "", evidence=("v",))
    return propose("mend_gradient", finding, (fact,), text)


def is_right(text):
    """Beside autograd through the forward itself, for a cotangent of both signs."""
    names = {}
    exec(text, names)
    generator = torch.Generator().manual_seed(0)
    x, w, cotangent = (torch.randn(4, 4, dtype=torch.float64, generator=generator) for _ in range(3))
    inputs = [x.requires_grad_(), w.requires_grad_()]
    context = SimpleNamespace(save_for_backward=lambda *tensors: None)
    truth = torch.autograd.grad(names["Layer"].forward(context, *inputs), inputs, cotangent)
    try:
        found = torch.autograd.grad(names["Layer"].apply(*inputs), inputs, cotangent)
    except RuntimeError:
        return False
    return all(torch.allclose(one, other) for one, other in zip(found, truth, strict=True))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_mended_where_it_stands(fault):
    forward, body, index, cause, reason, line = FAULTS[fault]
    text = text_of(forward, body)
    assert not is_right(text)
    made = proposals(text, index, cause, reason)
    right = [proposal for proposal in made if is_right(proposal.new_text)]
    assert right, [proposal.diff for proposal in made]
    assert f"+        {line}\n" in right[0].diff
    assert len(made) <= 9


def test_a_comment_stays():
    forward, body, index, cause, reason, _ = FAULTS["a sum instead of a vjp, under a name"]
    assert "# dy/dx" in proposals(text_of(forward, body), index, cause, reason)[0].new_text


def test_what_is_returned_in_two_places_is_left_alone():
    body = "if x.sum() > 0:\n    return 2 * x, g\nreturn 2 * x * w, x ** 2 * g"
    assert proposals(text_of("x ** 2 * w", body), 0, "missing grad_output") == ()


@pytest.mark.parametrize("cause", ["formula", "region", "precision lost", "state kept between calls"])
def test_a_cause_that_names_no_edit_proposes_none(cause):
    assert proposals(text_of("x ** 2 * w", "return x * w * g, x ** 2 * g"), 0, cause) == ()


def test_a_term_that_may_hold_the_cotangent_stays():
    body = "held = ctx.held\nreturn 2 * x * w * g + held(g), x ** 2 * g"
    assert proposals(text_of("x ** 2 * w", body), 0, "additive offset") == ()
