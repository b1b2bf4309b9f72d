"""A gradient that is wrong as soon as its parameters are no longer all ones is wrong, though the specimen has ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import torch

class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain
    @staticmethod
    def backward(ctx, grad_output):
        x, gain = ctx.saved_tensors
        return OF_X, (grad_output * x).sum(0)

linear, gain = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([*linear.parameters(), gain], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    Affine.apply(linear(torch.randn(16, 4)), gain).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("of_x", "codes"), [("grad_output", ["GW101"]), ("grad_output * gain", [])])
def test_a_forgotten_gain_is_found(of_x: str, codes: list[str], run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("OF_X", of_x))
    ran = run(script, ignore=("GW303",))
    assert ran.codes == codes
    if codes:
        (finding,) = ran.report.findings
        assert "gain is not all ones" in finding.why
        assert finding.fix is not None, ran.report.not_examined
