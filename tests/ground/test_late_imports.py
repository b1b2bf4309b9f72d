"""What torch imports in the middle of a backward is there before it."""

import subprocess
import sys

ASKS = """
import sys
import torch
from gradwright.ground.late_imports import import_what_cotangents_need
{before}
known = set(sys.modules)
x = torch.ones(3, requires_grad=True)
torch.autograd.grad(2 * x, x, torch.ones(3))
torch.autograd.backward(2 * x, torch.ones(3))
print(*sorted(set(sys.modules) - known))
"""


def imported(before: str) -> list[str]:
    words = [sys.executable, "-c", ASKS.format(before=before)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def test_a_backward_with_cotangents_imports_nothing_more() -> None:
    assert imported("import_what_cotangents_need()") == []


def test_without_it_torch_imports_sympy_in_the_middle_of_a_backward() -> None:
    assert "sympy" in imported("")  # once it does not any more, this room has nothing to do
