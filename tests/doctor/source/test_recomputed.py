"""What a Function saves and could compute again, as its text shows it."""

import ast
import textwrap

import pytest

from gradwright.doctor.source.recomputed import recomputable

FUNCTION = """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, n=2):
{forward}
        ctx.save_for_backward({saved})
        return out

    @staticmethod
    def backward(ctx, g):
        {unpacked} = ctx.saved_tensors
        return g * {unpacked}, None, None
"""


def found(forward: str, saved: str, unpacked: str = "") -> tuple | None:
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    unpacked = unpacked or (saved if "," in saved else f"({saved},)")
    one = recomputable(FUNCTION.format(forward=body, saved=saved, unpacked=unpacked), 3)
    return None if one is None else (one.names, one.inputs, [ast.unparse(statement) for statement in one.statements])


@pytest.mark.parametrize(
    ("forward", "saved", "expected"),
    [
        ("s = torch.sigmoid(x)", "x, s", ({1: "s"}, ("x",), ["s = torch.sigmoid(x)"])),
        ("s = x.exp().log1p()", "s", ({0: "s"}, ("x",), ["s = x.exp().log1p()"])),
        ("a = -x * 2 + w", "a", ({0: "a"}, ("x", "w"), ["a = -x * 2 + w"])),
        ("m = x > 0\nout = x.clamp(min=0)", "m", ({0: "m"}, ("x",), ["m = x > 0"])),
        (
            "a = x * x\nb = torch.sqrt(a + 1)\nc = w.sum()",
            "b, c",
            ({0: "b"}, ("x",), ["a = x * x", "b = torch.sqrt(a + 1)"]),
        ),
        ("t = F.softplus(x, beta=2)", "t", ({0: "t"}, ("x",), ["t = F.softplus(x, beta=2)"])),
    ],
)
def test_elementwise_values_of_the_inputs_can_be(forward: str, saved: str, expected: tuple) -> None:
    assert found(forward, saved) == expected


@pytest.mark.parametrize(
    ("forward", "saved"),
    [
        ("y = x @ w", "x, y"),
        ("y = F.linear(x, w)", "x, y"),
        ("y = torch.softmax(x, 0)", "x, y"),
        ("s = x.sum()", "x, s"),
        ("s = torch.sigmoid(x)\ns = s * 2", "x, s"),
        ("s = torch.sigmoid(x)\ns += 1", "x, s"),
        ("s = torch.sigmoid(x)\ns.mul_(2)", "x, s"),
        ("s = torch.sigmoid(x)\ns[0] = 0", "x, s"),
        ("x = x + 1\ns = torch.sigmoid(x)", "w, s"),
        ("s = torch.sigmoid(x)\ntorch.exp(w, out=s)", "s, w"),
        ("s = torch.sigmoid(x)\nctx.mark_dirty(x)", "w, s"),
        ("if n:\n    s = torch.sigmoid(x)", "x, s"),
        ("s = torch.sigmoid(x * scale)", "x, s"),
        ("s = mine.special(x)", "x, s"),
        ("s = torch.exp(torch.randn_like(x))", "x, s"),
        ("s = torch.clamp(x, min=n)", "x, s"),
    ],
)
def test_what_is_dear_or_changed_or_hangs_on_more_can_not(forward: str, saved: str) -> None:
    assert found(forward, saved) is None


def test_the_backward_must_have_the_same_name_for_it() -> None:
    assert found("s = torch.sigmoid(x)", "x, s", "x, gate") is None
