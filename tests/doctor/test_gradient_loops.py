"""Loops that take a gradient per sample, tried where the script enters them: on the graph that is alive."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from gradwright.doctor import gradient_loops
from gradwright.doctor.session.model import Finding, Fix, Subject
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.entered import LoopUse, loop_uses
from gradwright.doctor.source.files import read
from gradwright.doctor.source.loops import find_loops

SCRIPT = """import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), {norm}torch.nn.Linear(16, 1))
x = torch.randn({samples}, 3, requires_grad=True)
y = model(x)
noise = torch.rand(1)
penalty = 0.0
for sample in range(len(x)):
    (slope,) = torch.autograd.grad(y[sample, 0], x, create_graph=True)
    penalty = penalty + (slope[sample].norm() - 1) ** 2
penalty.backward()
print(penalty.item(), noise.item(), torch.rand(1).item(), model[0].weight.grad.sum().item())
"""


def entered(tmp_path, **kind):
    """The loop, tried as if a script had entered it."""
    path = tmp_path / "train.py"
    text = SCRIPT.format(**{"norm": "", "samples": 32, **kind})
    path.write_text(text)
    file = read(path)
    use = next(use for use in loop_uses(file, find_loops(file)) if use.site.gradient_loop)
    names: dict = {}
    exec(compile("\n".join(text.split("\n")[: use.site.line - 1]), str(path), "exec"), names)
    seconds: list[float] = []
    gradient_loops.try_on_live_graph(use, names, {}, seconds.append)
    return use, seconds


def finding(use: LoopUse) -> Finding:
    at = use.subject.location
    inside = Location(at.path, at.line + 1, 1, at.line + 1, 20)
    return Finding("GW302", "loop-over-autograd-grad", "speed", "warning", "autograd.grad", inside, "", "")


@pytest.fixture(autouse=True)
def state_of_this_process():
    before = torch.random.get_rng_state()
    yield
    torch.random.set_rng_state(before)


def test_independent_samples_are_taken_in_one_sum(tmp_path):
    use, seconds = entered(tmp_path)
    candidates, fix, why = gradient_loops.treated(finding(use), [use])
    assert isinstance(fix, Fix), (candidates, why)
    assert "torch.autograd.grad(y[:, 0].sum(), x, create_graph=True)" in fix.diff
    assert fix.proof.mutants_rejected >= 20 and len(seconds) == 1


def test_coupled_samples_are_never_summed_over(tmp_path):
    use, _ = entered(tmp_path, norm="torch.nn.BatchNorm1d(16), ", samples=64)
    candidates, fix, _ = gradient_loops.treated(finding(use), [use])
    assert not any(".sum(), x" in candidate.diff for candidate in candidates)
    assert "CoupledBatch" in (candidates[0].counterexample or "")
    assert fix is None or 'batch="coupled"' in fix.diff


def test_a_short_loop_is_left_alone(tmp_path):
    use, _ = entered(tmp_path, samples=5)
    assert "too few" in gradient_loops.treated(finding(use), [use])[2]


def test_without_a_fork_nothing_is_tried_and_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_loops, "torch_survives_fork", lambda: False)
    use, _ = entered(tmp_path)
    assert "forked child" in gradient_loops.treated(finding(use), [use])[2]


def test_a_finding_elsewhere_is_not_this_loops(tmp_path):
    at = Location("other.py", 1, 1, 9, 1)
    subject = Subject("loop", "loop", "the script", at)
    use = SimpleNamespace(subject=subject, live="told")
    other = finding(SimpleNamespace(subject=Subject("s", "loop", "n", Location("train.py", 5, 1, 6, 1))))
    assert gradient_loops.treated(other, [use]) == ([], None, "")  # type: ignore[list-item]


def test_the_script_prints_what_it_prints_alone(tmp_path, run):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(norm="", samples=32))
    alone = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout
    ran = run(path)
    assert ran.stdout == alone
    assert [one.fix is not None for one in ran.report.findings if one.code == "GW302"] == [True]
