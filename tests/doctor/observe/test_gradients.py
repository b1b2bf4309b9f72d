"""Gradient calls that a library makes inside a backward of the script's."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
import torch

from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.lookers.order import Order
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.facts import GradientCalls
from gradwright.doctor.session.journal import Journal, fold

LIBRARY = """
import torch

class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            return torch.autograd.grad(inner.sin(), inner, grad_output)[0]
"""


def test_a_gradient_inside_a_backward_is_no_backward_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have one site, the script's line: no line of the script's lies between them."""
    library: dict[str, type[torch.autograd.Function]] = {}
    exec(compile(LIBRARY, f"{sysconfig.get_paths()['purelib']}/adjoint.py", "exec"), library)
    told = {"before_backward": 0, "after_backward": 0}

    def count(name: str) -> None:
        plain = getattr(Order, name)

        def counted(*given: object) -> None:
            told[name] += 1
            plain(*given)

        monkeypatch.setattr(Order, name, counted)

    for name in told:
        count(name)
    x = torch.ones(3, requires_grad=True)
    with Journal(tmp_path / "journal") as journal, Watch(journal, Clock(), whole_script=False):
        for _ in range(6):
            library["Adjoint"].apply(x).sum().backward()
    assert told == {"before_backward": 6, "after_backward": 6}
    assert "watching failed" not in (tmp_path / "journal").read_text()
    assert sum(fact.calls for fact in fold(tmp_path / "journal").of(GradientCalls)) == 12
