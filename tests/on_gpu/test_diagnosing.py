"""The doctor where a GPU is in use: trials in this process, under a watchdog; where none is, in children as ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from tests.devices import DEVICE, IS_DRY, MARKS, only_on_cuda
from torch import Tensor

import gradwright as gw
from gradwright.doctor.session.codec import from_json
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Report

pytestmark = [*MARKS]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return torch.exp(-x) * w

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return -torch.exp(-x) * w * cotangent, torch.exp(-x) * cotangent


class Flipped(Scaled):
    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        of_x, of_w = Scaled.backward(ctx, cotangent)
        return -of_x, of_w


def draw_inputs() -> list[Tensor]:
    torch.ones(1, device=DEVICE).sum().item()  # from here on a GPU is in use
    return [torch.randn(4, 3, device=DEVICE, requires_grad=True) for _ in range(2)]


def verdicts(report: Any) -> dict[str, str]:
    return {fact.input_name: fact.verdict for fact in report.of(GradientVerdict)}


def test_a_right_function_is_right_and_a_wrong_one_wrong() -> None:
    inputs = draw_inputs()
    right, wrong = gw.diagnose(Scaled, *inputs), gw.diagnose(Flipped, *inputs)
    assert verdicts(right) == {"x": "right", "w": "right"}, str(right)
    assert not [finding for finding in right.findings if finding.severity == "error"], str(right)
    assert verdicts(wrong) == {"x": "wrong", "w": "right"}, str(wrong)
    assert "GW101" in [finding.code for finding in wrong.findings], str(wrong)


def test_random_states_and_gradients_are_left_as_they_were() -> None:
    inputs = draw_inputs()
    inputs[0].grad = kept = torch.full_like(inputs[0], 7.0)

    def states() -> list[Tensor]:
        return [torch.get_rng_state(), *([] if IS_DRY else torch.cuda.get_rng_state_all())]

    before = states()
    gw.diagnose(Scaled, *inputs)
    assert all(torch.equal(one, other) for one, other in zip(states(), before, strict=True))
    assert inputs[0].grad is kept and bool((kept == 7).all())


def run_python(folder: Path, *words: str) -> str:
    """What a Python of its own prints, from its beginning; its exit code comes first."""
    package = str(Path(gw.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([package, *sys.path[1:]])},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"


def diagnosed(folder: Path, text: str) -> Report:
    """What ``gradwright diagnose`` says of a script."""
    (folder / "train.py").write_text(text)
    printed = run_python(folder, "-m", "gradwright", "diagnose", "train.py")
    session = folder / ".gradwright" / "last.json"
    assert session.is_file(), printed
    report = from_json(session.read_text())
    assert report.script.exit_code == 0, printed
    return report


ENDLESS = f"""
import torch
import gradwright as gw
from gradwright.doctor import consultation

class Endless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        while True:
            pass

consultation._PATIENCE = 1.0
print(gw.diagnose(Endless, torch.ones(3, device="{DEVICE}")))
x = torch.ones(3, device="{DEVICE}", requires_grad=True)
(2 * x).sum().backward()
print("then", x.grad.tolist())
"""


def test_a_backward_that_never_ends_is_ended_and_reported_and_the_next_one_goes_through(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    printed = run_python(tmp_path, "endless.py")
    assert "it had not ended after 1 s" in " ".join(printed.split()), printed
    assert "then [2.0, 2.0, 2.0]" in printed, printed


WAITING = f"""
import torch
torch.manual_seed(0)
model = torch.nn.Linear(6, 3).to("{DEVICE}")
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(12, 6, device="{DEVICE}"), torch.randint(0, 3, (12,), device="{DEVICE}")
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
    worst = max(one.item() for one in loss)
    loss.mean().backward()
    optimizer.step()
"""


def test_a_wait_in_each_step_of_a_script_is_found_at_its_line(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, WAITING)
    found = [(finding.location.line, finding.message) for finding in report.findings if finding.code == "GW317"]
    if IS_DRY:  # nobody waits for a CPU
        assert found == []
    else:
        assert [line for line, _ in found] == [10], report.findings
        assert report.environment.device == torch.cuda.get_device_name()


ON_A_CPU = """
import torch

class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.saved_tensors[0]

x = torch.randn(3, requires_grad=True)
for step in range(3):
    Halved.apply(x).sum().backward()
print("in use:", torch.cuda.is_initialized())
"""


@only_on_cuda
def test_a_script_of_the_cpu_is_tried_in_children_though_there_is_a_gpu(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, ON_A_CPU)
    assert "GW101" in [finding.code for finding in report.findings]
    assert not [gap for gap in report.not_examined if "a GPU is in use" in gap.why], report.not_examined
    assert report.environment.device != torch.cuda.get_device_name()
