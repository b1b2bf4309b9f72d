"""Once a script has begun to use a GPU no process may be forked: all is tried in the script's own, under a watchdog.

There is no GPU here. Scripts say that CUDA is in use, and note each fork and each wait for the whole device; and one
uses a device that stands in for an accelerator.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stand_in_device import IS_POSSIBLE

from gradwright.doctor.session.facts import GradientVerdict

NOTED = """
import os
import torch

def noted(name, function):
    def call(*args, **kwargs):
        with open(name, "a") as file:
            file.write("x")
        return function(*args, **kwargs)
    return call

os.fork = noted("forks", os.fork)
torch.cuda.synchronize = noted("waits", lambda device=None: None)
"""
IN_USE = """
torch.cuda.is_initialized = lambda: True
torch.cuda.get_device_name = lambda device=None: "a GPU"
"""
SCRIPT = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        return 2 * x**2 * cotangent


def rectify(x):
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = max(x[i, j], 0)
    return out


torch.manual_seed(0)
weight = torch.randn(12, 10, requires_grad=True, device=DEVICE)
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = (rectify(Cube.apply(weight)).sum(1) + 1).log().mean()
    loss.backward()
    optimizer.step()
print("waits", os.path.exists("waits"))
"""
NAN = """
nothing = torch.zeros(3, requires_grad=True)
torch.log(nothing - 1).sum().backward()
"""
STUCK = """
from gradwright.doctor.probe import attempts
attempts.Limits.__init__.__defaults__ = (0.1, 4 << 30)

class Stuck(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Stuck.calls += 1
        while Stuck.calls > 2:
            pass
        return 2 * x

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * cotangent

x = torch.randn(4, requires_grad=True)
for _ in range(2):
    Stuck.apply(x).sum().backward()
"""
APART = "crashes and memory of subjects tried alone"


def write_script(folder: Path, *parts: str, device: str = "None") -> Path:
    folder.mkdir(exist_ok=True)
    (script := folder / "train.py").write_text("".join(parts).replace("DEVICE", device))
    return script


def test_with_a_gpu_in_use_nothing_is_forked_and_what_is_found_and_mended_is_the_same(
    run: Callable, tmp_path: Path
) -> None:
    forked = run(write_script(tmp_path / "forked", NOTED, SCRIPT), anew=True, fix_seconds=0.0)
    ran = run(write_script(tmp_path / "in_use", NOTED, IN_USE, SCRIPT, NAN), anew=True)
    assert (tmp_path / "forked/forks").exists() and not (tmp_path / "in_use/forks").exists()
    assert forked.codes == ["GW101", "GW301"] and ran.codes == [*forked.codes, "GW502", "GW511"]
    verdicts = [[fact.verdict for fact in one.report.of(GradientVerdict)] for one in (forked, ran)]
    assert verdicts == [["wrong"]] * 2
    mended = {finding.code for finding in ran.report.findings if finding.fix is not None}
    assert mended == {"GW101", "GW301"}
    assert "waits False" in ran.stdout and (tmp_path / "in_use/waits").exists()  # the trials' clocks wait, no step does
    assert ran.report.environment.device == "a GPU" != forked.report.environment.device


def test_with_a_gpu_in_use_the_report_says_what_is_not_examined(run: Callable, tmp_path: Path) -> None:
    ran = run(write_script(tmp_path, NOTED, IN_USE, STUCK), anew=True, fix_seconds=0.0)
    (apart,) = [one for one in ran.report.not_examined if one.what == APART]
    assert "a GPU is in use" in apart.why and "in this process, within a time limit" in apart.why
    stuck = [one.why for one in ran.report.not_examined if "Stuck" in one.what]
    assert any("it had not ended" in why for why in stuck) and not (tmp_path / "forks").exists()


@pytest.mark.skipif(not IS_POSSIBLE, reason="this torch takes no kind of device that is written in Python")
def test_on_an_accelerator_all_of_it_runs_where_the_script_ran(run: Callable, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    registered = (
        f"import sys\nsys.path.insert(0, {str(root)!r})\nfrom tests.stand_in_device import register\nregister()\n"
    )
    ran = run(write_script(tmp_path, registered, NOTED, SCRIPT, device="'standin:1'"), anew=True, fix_seconds=0.0)
    assert ran.codes == ["GW101", "GW301"] and not (tmp_path / "forks").exists()
    assert {tensor.device for specimen in ran.report.specimens for tensor in specimen.tensors} == {"standin:1"}
