"""Run by the Python of an environment that holds the wheel and what it needs, and nothing else; in an empty folder.

Every door is opened once, and what stands behind it has to be right.
"""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

GRADWRIGHT = Path(sysconfig.get_path("scripts"), "gradwright")
SCRIPT = """
import torch


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = x[row, col] ** 2
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x


x = torch.randn(24, 24, requires_grad=True)
Slow.apply(x).sum().backward()
"""


def run(*words: object, ends: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
    assert done.returncode == ends, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def the_command() -> None:
    version = importlib.metadata.version("gradwright")
    assert version in run(GRADWRIGHT, "--version")
    assert version in run(sys.executable, "-m", "gradwright", "--version")
    assert "diagnose" in run(GRADWRIGHT, "--help")
    assert "GW301" in run(GRADWRIGHT, "rules")
    assert "What it finds" in run(GRADWRIGHT, "explain", "GW301")
    assert "Huber" in run(GRADWRIGHT, "exercise")
    assert "complete -o" in run(GRADWRIGHT, "completion", "bash")


def the_doctor() -> None:
    script = Path("train.py")
    script.write_text(SCRIPT)
    told = run(GRADWRIGHT, "diagnose", script, ends=1)
    assert "WRONG in x: 0.5 times what it is" in told or "WRONG in x: half of what it is" in told, told
    assert "GW101" in told and "GW301" in told, told
    for form, sign in (("html", "<!doctype html>"), ("json", "{"), ("sarif", "{"), ("github", "::"), ("trace", "{")):
        report = run(GRADWRIGHT, "report", "--format", form, ends=1)  # there are findings
        assert report.lower().startswith(sign), f"{form}: {report[:80]}"
        if sign == "{":
            json.loads(report)
    run(GRADWRIGHT, "fix", "--apply", script)
    assert Path("train.py.orig").read_text() == SCRIPT
    run(GRADWRIGHT, "diagnose", "--select", "GW1", script)


def the_library() -> None:
    import torch

    import gradwright as gw
    from gradwright import losses
    from gradwright.training import GradientAccumulator

    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    square = gw.custom_gradient(lambda x: x**2, lambda grad_output, x: 2 * x * grad_output)
    assert gw.check(square, x).ok
    assert not gw.check(gw.custom_gradient(lambda x: x**2, lambda grad_output, x: x * grad_output), x).ok
    assert "def " in str(gw.derive(torch.tanh, x))
    bent = gw.elementwise("where(e > 0, q*e, (q - 1)*e)")
    assert torch.allclose(bent(e=x, q=0.9), torch.where(x > 0, 0.9 * x, -0.1 * x))
    assert torch.allclose(losses.huber_loss(x, 3 * x), torch.nn.functional.huber_loss(x, 3 * x))
    jacobian = gw.batch_jacobian(x.sin(), wrt=x)
    assert torch.allclose(jacobian, torch.diag_embed(x.cos()))
    model = torch.nn.Linear(3, 1, dtype=torch.float64)
    accumulator = GradientAccumulator(model, torch.optim.SGD(model.parameters(), lr=0.1), accumulation_steps=2)
    for window in accumulator.windows([x.detach()[:2], x.detach()[2:]]):
        for batch in window:
            accumulator.backward(model(batch).square().sum(), reduction="sum", items=len(batch))
        assert accumulator.step().items == {"loss": 5.0}


def without_extras() -> None:
    absent = ("pytest", "hypothesis", "tensorboard", "scipy", "sklearn", "matplotlib", "IPython")
    assert not [name for name in absent if importlib.util.find_spec(name)], "not an environment of its own"
    import gradwright.testing

    assert callable(gradwright.testing.assert_gradients)


if __name__ == "__main__":
    for door in (without_extras, the_command, the_library, the_doctor):
        door()
        print(f"smoke: {door.__name__.replace('_', ' ')}: ok")
