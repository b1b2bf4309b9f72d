"""Wherever the operation stands: imports by other names, methods of modules, other files, in place, in a lambda."""

from collections.abc import Callable
from pathlib import Path

import pytest

LOOP = """
for step in range(5):
    model.zero_grad()
    out = model(x)
    out = out * (t.arange(8)[:, None] != step + 4) if step else out
    loss = compute(out, step)
    loss.backward()
    with t.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
"""
START = "import torch as t\nt.manual_seed(0)\nmodel, x = t.nn.Linear(4, 4), t.randn(8, 4)\n"

SCRIPTS = {
    "torch by another name": (
        START + "def compute(out, step):\n    return t.sqrt(out.abs()).mean()\n" + LOOP,
        "return t.where(operand == 0, 0, t.sqrt(t.where(operand == 0, 1, operand))).mean()",
    ),
    "torch imported in parts, in tabs": (
        "from torch import sqrt\n" + START.replace("import torch as t", "import torch as t; del t\nimport torch as t")
        + "def compute(out, step):\n\treturn sqrt(out.abs()).mean()\n" + LOOP,
        "return t.where(operand == 0, 0, sqrt(t.where(operand == 0, 1, operand))).mean()",
    ),
    "a module's forward": (
        START + """
class Head(t.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = t.nn.Parameter(t.ones(4))

    def forward(self, h):
        energy = (self.scale * h).abs()
        return energy.sqrt().mean()

head = Head()
def compute(out, step):
    return head(out)
""" + LOOP,
        "return t.where(energy == 0, 0, t.where(energy == 0, 1, energy).sqrt()).mean()",
    ),
    "the script's own body": (
        START + LOOP.replace("compute(out, step)", "out.abs().pow(0.5).mean()  # the loss"),
        "loss = t.where(operand == 0, 0, t.where(operand == 0, 1, operand).pow(0.5)).mean()  # the loss",
    ),
    "a lambda": (
        START + "size = lambda s: t.sqrt(s).mean()\ncompute = lambda out, step: size(out.abs())\n" + LOOP,
        "size = lambda s: t.where(s == 0, 0, t.sqrt(t.where(s == 0, 1, s))).mean()",
    ),
    "letters of more than a byte": (
        START + "def compute(out, step):\n    ä = 'ö'; näher = out.abs(); return t.sqrt(näher).mean() if 'é' else 0\n"
        + LOOP,
        "ä = 'ö'; näher = out.abs(); return t.where(näher == 0, 0, "
        "t.sqrt(t.where(näher == 0, 1, näher))).mean() if 'é' else 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_mended_there(name: str, script: Callable) -> None:
    text, line = SCRIPTS[name]
    mended = script(text).mended()
    assert line in mended.lines, (mended.lines, mended.fact.text, mended.why, mended.refused)


def test_in_another_file_which_has_no_torch_by_name(script: Callable, tmp_path: Path) -> None:
    helper = 'from torch import Tensor\n\n\ndef size(s: Tensor) -> Tensor:\n    """Of a row."""\n    return s.sqrt()\n'
    text = START + "from helper import size\ndef compute(out, step):\n    return size(out.abs()).mean()\n" + LOOP
    run = script(text, helper=helper)
    mended = run.mended()
    assert Path(mended.fact.location.path).name == "helper.py"
    assert mended.lines == ["import torch", "return torch.where(s == 0, 0, torch.where(s == 0, 1, s).sqrt())"]
    assert (tmp_path / "helper.py").read_text() == helper  # tried in its place, not written


DECLINED = {
    "return (out * 1e30 * (step + 1)).pow(3).mean()": "yours to choose",
    "return t.exp(90 * step * out).mean()": "how far the operand of the exponential may grow",
    "return (t.sin(out) / out).mean()": "what a quotient is to be where its divisor is 0 is yours to choose",
    "return t.log(out - 1).mean()": "what its value is to be there is yours to choose",
    "return out.abs().rsqrt().mean()": "yours to choose",
    "h = (out * 1e6).half()\nreturn h.float().mean()": "a gradient scaler, or a wider format further up",
}


@pytest.mark.parametrize("body", DECLINED)
def test_what_is_the_users_to_choose_is_said_and_left(body: str, script: Callable) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    run = script(START + "def compute(out, step):\n" + lines + LOOP)
    proposals, why = run.proposals()
    assert proposals == () and DECLINED[body] in why, (why, run.fact)


def test_a_call_that_may_do_anything_is_not_made_twice(script: Callable) -> None:
    text = START + "net = t.nn.Linear(4, 1)\ndef compute(out, step):\n    return f(out).mean()\n"
    text += "f = lambda out: t.sqrt((net(out) - net(out)).abs())\n" + LOOP
    proposals, why = script(text).proposals()
    assert proposals == () and why


@pytest.mark.parametrize(
    "between",
    ["z[:, 0] = z[:, 0] / 2", "z.mul_(0.5)", "z = z + 1", "p = p / 2", "z.data = z.data * 2", "z *= 2"],
)
def test_a_name_is_not_seen_through_where_its_value_was_changed(between: str, script: Callable) -> None:
    body = f"    z = 300 * step * out\n    p = t.softmax(z, 1)\n    {between}\n    return -t.log(p).mean()\n"
    run = script(START + "def compute(out, step):\n" + body + LOOP)
    proposals, _ = run.proposals()
    assert proposals and not any("log_softmax" in one.new_text for one in proposals)
