"""Where NaN or inf begins, the doctor hands over a change that it tried in a run of the script, or says why none."""

from collections.abc import Callable
from pathlib import Path

from gradwright.doctor.render import render
from gradwright.doctor.session.codec import from_json, to_json
from gradwright.doctor.session.model import Finding

START = """import sys
from pathlib import Path
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
x = torch.randn(8, 4)
"""

LOOP = """
for step in range(8):
    model.zero_grad()
    out = model(x) * (torch.arange(8)[:, None] != step + 3)
    loss = size(out)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
print(f"loss {loss.item():.3f}")
"""

SIZE = '''"""Sizes of rows."""
from torch import Tensor


def size(rows: Tensor) -> Tensor:
    squares = (rows * rows).sum(1)
    return squares.sqrt().mean()
'''


def found(result) -> Finding:
    return next(finding for finding in result.report.findings if finding.code == "GW511")


def ran(run: Callable, folder: Path, text: str, **options) -> Finding:
    script = folder / "train.py"
    script.write_text(text)
    return found(run(script, cwd=folder, **options))


def test_a_package_gets_its_fix_in_the_file_of_the_fault_and_applied_it_trains(
    gradwright: Callable, tmp_path: Path
) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text(SIZE)
    (package / "train.py").write_text(START + "from .sizes import size\n" + LOOP)
    called = gradwright("diagnose", "-m", "net.train", cwd=tmp_path)
    assert "- return squares.sqrt().mean()" in called.stdout
    assert "+ return torch.where(squares == 0, 0, torch.where(squares == 0, 1, squares).sqrt()).mean()" in called.stdout
    assert (package / "sizes.py").read_text() == SIZE
    report = called.session
    assert report is not None
    fix = found(type("Result", (), {"report": report})).fix
    assert fix is not None and fix.proof.verdict == "verified" and not fix.unsafe
    assert fix.proof.run == "a run of the script (1 loss until it broke as before, 4 backwards from there on finite)"
    assert from_json(to_json(report)) == report
    made = gradwright("fix", "-m", "net.train", "--apply", cwd=tmp_path)
    assert "1 fix was made" in made.stdout + made.stderr, made
    assert "import torch\n" in (package / "sizes.py").read_text()
    again = gradwright("diagnose", "-m", "net.train", cwd=tmp_path)
    assert (again.code, "loss nan" in again.stdout) == (0, False), again.stdout


def test_what_nobody_but_the_user_can_choose_is_said(run: Callable, tmp_path: Path) -> None:
    finding = ran(run, tmp_path, START + "def size(out):\n    return (1e12 * out**2).pow(3).mean()\n" + LOOP)
    assert finding.fix is None
    (candidate,) = finding.candidates
    assert (candidate.diff, candidate.rewrite) == ("", "keep_finite")
    assert "is yours to choose" in (candidate.counterexample or "")


def test_two_losses_a_step_and_a_loss_that_the_script_skips_itself(run: Callable, tmp_path: Path) -> None:
    text = (
        START
        + """
critic = nn.Linear(4, 1)
for step in range(6):
    judged = critic(x.detach()).mean()
    judged.backward()
    out = model(x)
    kept = (torch.arange(8) > 4 * step).float()
    loss = (kept * out.pow(2).mean(1)).sum() / kept.sum()
    if torch.isnan(loss):
        continue
    loss.backward()
    with torch.no_grad():
        for p in [*model.parameters(), *critic.parameters()]:
            p -= 0.01 * p.grad
            p.grad = None
"""
    )
    finding = ran(run, tmp_path, text)
    assert finding.fix is not None, finding.candidates
    assert "+    loss = (kept * out.pow(2).mean(1)).sum() / kept.sum().clamp(min=1)" in finding.fix.diff
    assert "5 losses until it broke as before" in finding.fix.proof.run  # 2 steps of two losses, and the critic's third


OTHERWISE = """
log = Path("runs")
times = len(log.read_text()) if log.exists() else 0
log.write_text("." * (times + 1))
x = x * {factor}
"""


def test_runs_that_are_not_alike_have_no_fix(run: Callable, tmp_path: Path) -> None:
    size = "def size(out):\n    return out.abs().sqrt().mean()\n"
    second, third = tmp_path / "second", tmp_path / "third"
    for folder, factor in ((second, "(1 + times)"), (third, "(1 + (times > 1))")):
        folder.mkdir()
        finding = ran(run, folder, START + OTHERWISE.format(factor=factor) + size + LOOP)
        assert finding.fix is None
        told = finding.candidates[-1].counterexample or ""
        assert "the loss of backward 0 was " in told
        assert ("runs are not alike" in told) is (folder == second)


def test_without_time_for_fixes_none_is_tried_and_the_report_says_so(run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(START + "def size(out):\n    return out.abs().sqrt().mean()\n" + LOOP)
    result = run(script, cwd=tmp_path, fix_seconds=0.0)
    shown = " ".join(render(result.report, "terminal", width=100, color=False).split())
    assert found(result).fix is None
    assert "keep_finite was tried and is no fix: it was not tried: the time for runs of the script was used up" in shown


def test_a_script_that_ends_itself_at_nan_goes_on_in_the_trial(run: Callable, tmp_path: Path) -> None:
    text = START + "def size(out):\n    p = torch.softmax(300 * out, dim=1)\n    return -torch.log(p[:, 0]).mean()\n"
    look = '    if loss.isinf():\n        raise ValueError("the loss is infinite")\n'
    text += LOOP.replace("    loss.backward()", look + "    loss.backward()")
    text = text.replace("model(x)", "model(x) * step / 4")
    finding = ran(run, tmp_path, text)
    assert finding.fix is not None, finding.candidates
    assert "+    return -torch.log_softmax(300 * out, dim=1)[:, 0].mean()" in finding.fix.diff
    assert "-    p = torch.softmax(300 * out, dim=1)" in finding.fix.diff
