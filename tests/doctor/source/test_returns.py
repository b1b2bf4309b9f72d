"""Where a backward's gradients stand in the text."""

import textwrap

import pytest

from gradwright.doctor.source.returns import returned_values


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("return g * 2, None", ["g * 2", "None"]),
        ("return (g * 2)", ["g * 2"]),
        ("return (None, *[g for _ in ctx.n])", ["(None, *[g for _ in ctx.n])"]),
        ("return tuple(grads)", ["tuple(grads)"]),
        ("if not ctx.needed:\n    return None, None\nreturn g, -g", ["g", "-g"]),
        ("if not ctx.needed:\n    return (None,) * 2\nreturn g, -g", ["g", "-g"]),
        ("if ctx.needed:\n    return g, None\nreturn g, -g", []),
        ("def inner():\n    return 1\nreturn g", ["g"]),
        ("pass", []),
    ],
)
def test_the_only_return_with_values_is_the_place(body, values):
    text = "def backward(ctx, g):\n" + textwrap.indent(body, "    ") + "\n"
    lines = text.splitlines()
    spans = returned_values(text, 1)
    assert [lines[span.line - 1][span.column - 1 : span.end_column - 1] for span in spans] == values
