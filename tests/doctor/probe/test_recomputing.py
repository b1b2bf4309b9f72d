"""GW405: what a Function saves beside what it needs, in bytes of a real call."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.session.facts import SavedTooMuch

SCRIPT = """
import torch
from torch.autograd.function import once_differentiable

class Act(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
{forward}

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
{backward}

x = torch.randn({size}, 128, requires_grad=True)
Act.apply(x).sum().backward()
"""
SWISH = (
    "s = torch.sigmoid(x)\nctx.save_for_backward(x, s)\nreturn x * s",
    "x, s = ctx.saved_tensors\nreturn g * (s + x * s * (1 - s))",
)
SIGMOID = (
    "s = torch.sigmoid(x)\nctx.save_for_backward(s)\nreturn s",
    "(s,) = ctx.saved_tensors\nreturn g * s * (1 - s)",
)
GATE = (
    "s = torch.sigmoid(x)\nctx.save_for_backward(s)\nreturn s * 2",
    "(s,) = ctx.saved_tensors\nreturn 2 * g * s * (1 - s)",
)
MASK = (
    "m = x > 0\nctx.save_for_backward(x, m)\nreturn x * x * m",
    "x, m = ctx.saved_tensors\nreturn g * 2 * x * m",
)
PRODUCT = (
    "p = x @ x.t()\nctx.save_for_backward(x, p)\nreturn p.sin()",
    "x, p = ctx.saved_tensors\nd = g * p.cos()\nreturn (d + d.t()) @ x",
)


@pytest.fixture
def seen(run: Callable, tmp_path: Path) -> Callable:
    def ran(methods: tuple[str, str], size: int = 256):
        forward, backward = (textwrap.indent(text, " " * 8) for text in methods)
        script = tmp_path / "train.py"
        script.write_text(SCRIPT.format(forward=forward, backward=backward, size=size))
        report = run(script, cwd=tmp_path, fix_seconds=0.0).report
        assert report.script.exit_code == 0
        told = [one for one in report.findings if one.code == "GW405"]
        return list(report.of(SavedTooMuch)), told, script.read_text().splitlines()

    return ran


def test_a_gate_beside_its_input_is_twice_the_bytes(seen: Callable) -> None:
    (fact,), (finding,), lines = seen(SWISH)
    each = 256 * 128 * 4
    assert (fact.bytes, fact.needed_bytes, fact.given_bytes) == (2 * each, each, each)
    assert (fact.names, fact.inputs, fact.statements) == (("s",), ("x",), ("s = torch.sigmoid(x)",))
    at = finding.location
    assert lines[at.line - 1][at.column - 1 : at.end_column - 1] == "s"
    assert "s can be computed again of x" in finding.message
    assert "To make it again takes no longer than the forward" in finding.why
    assert finding.severity == "info"


@pytest.mark.parametrize(
    "methods", [SIGMOID, GATE, MASK, PRODUCT], ids=["an output", "in place of its input", "a mask", "a product"]
)
def test_what_spares_little_or_is_dear_is_not_told(methods: tuple[str, str], seen: Callable) -> None:
    _, told, _ = seen(methods)
    assert told == []


def test_nor_what_is_small(seen: Callable) -> None:
    (fact,), told, _ = seen(SWISH, size=32)
    assert fact.bytes == 2 * fact.needed_bytes == 2 * 32 * 128 * 4
    assert told == []
