"""Loops in what ``gw.custom_gradient`` is given, which stands at a module's level: found as those of a Function are."""

from collections.abc import Callable
from pathlib import Path

SCRIPT = """
import torch
import gradwright as gw

torch.manual_seed(0)  # of other numbers, GW104 reports the loop's rounding too

@gw.custom_gradient
def cube(x):
    y = torch.zeros_like(x)
    for row in range(len(x)):
        for col in range(x.shape[1]):
            y[row, col] = x[row, col] ** 3  # here
    return y

@cube.backward
def _(cotangent, x):
    return 3 * x ** 2 * cotangent

@gw.custom_gradient
def product(x, weight):
    return x @ weight.t()

@product.backward
def _(cotangent, x, weight):
    of_weight = torch.zeros_like(weight)
    for row in range(x.shape[0]):  # here
        of_weight += cotangent[row, :, None] * x[row]
    return cotangent @ weight, of_weight

weight, x = torch.randn(16, 12, requires_grad=True), torch.randn(400, 12)
for _ in range(4):
    (product(x, weight).square().mean() + cube(weight).mean()).backward()
    weight.grad = None
"""
MENDED = (
    (
        "    for row in range(len(x)):\n        for col in range(x.shape[1]):\n"
        "            y[row, col] = x[row, col] ** 3  # here\n",
        "    y = x ** 3\n",
    ),
    (
        "    for row in range(x.shape[0]):  # here\n        of_weight += cotangent[row, :, None] * x[row]\n",
        "    of_weight += cotangent.t() @ x\n",
    ),
)


def test_each_loop_is_told_at_its_line_with_a_fix_that_holds(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    faults = run(path).faults
    here = [number for number, line in enumerate(SCRIPT.splitlines(), 1) if "# here" in line]
    assert [(one.code, one.location.line) for one in faults] == list(zip(("GW301", "GW304"), here, strict=True))
    assert all(one.fix is not None and one.fix.proof.mutants_rejected for one in faults)


def test_without_them_nothing_is_told(run: Callable, tmp_path: Path) -> None:
    text = SCRIPT
    for old, new in MENDED:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "train.py"
    path.write_text(text)
    assert [one.message for one in run(path).faults] == []
