"""Two classes of one name and place, as a custom gradient has them: arguments of one are none of the other's."""

from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import torch
import gradwright as gw

@gw.custom_gradient
def halved(x):
    return 0.5 * x

@halved.backward
def _(grad_output, x):
    return 0.5 * grad_output

ASKED
linear = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    halved(linear(torch.randn(64, 4))).square().mean().backward()
    optimizer.step()
"""


def test_a_script_that_asks_gw_check_itself_is_examined_as_one_that_does_not(run: Callable, tmp_path: Path) -> None:
    asking = tmp_path / "train.py"
    asking.write_text(SCRIPT.replace("ASKED", 'assert gw.check(halved, torch.randn(8, 4), level="standard").ok'))
    ran = run(asking, fix_seconds=0.0)
    assert ran.faults == []
    assert not [gap for gap in ran.report.not_examined if "Error" in gap.why]
    (subject,) = [one for one in ran.report.subjects if one.kind == "function"]
    told = [gap for gap in ran.report.not_examined if "another class of this name and place" in gap.why]
    assert len(told) == 1 and told[0].what.endswith(f"of {subject.name}")


def test_classes_that_a_function_makes_anew_are_no_twins(run: Callable, tmp_path: Path) -> None:
    making = tmp_path / "train.py"
    making.write_text(
        """
import torch

def made():
    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 0.5 * x
        @staticmethod
        def backward(ctx, grad_output):
            return 0.25 * grad_output
    return Halved

for _ in range(2):
    made().apply(torch.randn(3, requires_grad=True)).sum().backward()
"""
    )
    ran = run(making, fix_seconds=0.0)
    assert "GW101" in ran.codes
    assert not [gap for gap in ran.report.not_examined if "another class" in gap.why]
