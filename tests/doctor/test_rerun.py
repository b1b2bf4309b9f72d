"""A second run of a script whose loss was not finite: where that begins, and when there is none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.options import Options, rerun_seconds
from gradwright.doctor.session.facts import NonfiniteBegins, WeightsNotFinite

START = """import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
rate = 0.1  # updates by hand: importing an optimizer's Dynamo would take most of the second run
x = torch.randn(32, 4)
y = x.sum(dim=1, keepdim=True)
"""

LOOP = """
for step in range(12):
    model.zero_grad()
    loss = compute(model(x), step)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
"""

MASK_BUG = """
rate = 300.0

def compute(p, step):
    error = (p - 5 * y).abs()
    near = (error <= 1).float()
    far = 1 - error
    return (near * error**2 / 2 + far * (error - 0.5)).mean()
"""

BRANCH = """
def compute(p, step):
    gap = (p - y) * (x[:, :1] > -3 + step / 4)
    size = torch.where(gap != 0, gap.abs().sqrt(), gap)
    return size.mean()
"""

NOBODY_LEFT = """
import random
import numpy as np

def compute(p, step):
    kept = torch.full_like(p, float(np.random.rand() < 0.7 and random.random() < 0.9))
    return (kept * (p - y) ** 2).sum() / kept.sum()
"""

OTHERWISE_THE_SECOND_TIME = """
from pathlib import Path
again = Path("ran").exists()
Path("ran").touch()

def compute(p, step):
    return ((p - y) ** 2).mean() / (0.0 if step == 3 and not again else 1.0)
"""


def column(text: str, expression: str) -> tuple[int, int]:
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if expression in line)
    return line, text.splitlines()[line - 1].index(expression) + 1


def ran(run: Callable, tmp_path: Path, loss: str, **options):
    script = tmp_path / "train.py"
    script.write_text(START + loss + LOOP)
    return run(script, cwd=tmp_path, fix_seconds=0.0, **options)


def test_the_root_cause_comes_first_and_the_story_is_told(run: Callable, tmp_path: Path) -> None:
    found = ran(run, tmp_path, MASK_BUG).report.findings
    assert [finding.code for finding in found] == ["GW501", "GW511", "GW502"]
    _, begins, loss = found
    assert begins.hints[0] == "this follows from GW501: mend that first"
    assert loss.hints == ("this follows from GW501 and GW511: mend that first",)
    assert begins.why.startswith("The loss was -")
    assert " at step 0 (negative), " in begins.why
    assert "where it began to grow without bound" in begins.why
    assert "its values had exploded before" in begins.message


def test_a_branch_that_is_not_taken_is_found_to_the_column(run: Callable, tmp_path: Path) -> None:
    result = ran(run, tmp_path, BRANCH)
    begins = next(finding for finding in result.report.findings if finding.code == "GW511")
    at = begins.location
    assert (at.path, at.line, at.column) == ("train.py", *column(START + BRANCH, "gap.abs().sqrt()"))
    assert begins.message == (
        "NaN begins in the backward of `gap.abs().sqrt()`: its value is not used, but 0 times an infinite slope is NaN"
    )
    assert "The gradient that arrives there is exactly 0 (the where at line" in begins.why
    fact = next(result.report.of(NonfiniteBegins))
    assert (fact.cause, fact.upstream, fact.step + 1) == ("where-nan", 0.0, fact.loss_step)


def test_random_numbers_of_python_and_numpy_are_the_same_again(run: Callable, tmp_path: Path) -> None:
    result = ran(run, tmp_path, NOBODY_LEFT.replace("0.9", "0.6"))
    begins = next(finding for finding in result.report.findings if finding.code == "GW511")
    expression = "(kept * (p - y) ** 2).sum() / kept.sum()"
    assert (begins.location.line, begins.location.column) == column(START + NOBODY_LEFT, expression)
    assert "a division by a count of 0" in begins.message
    assert "`kept.sum()`, the divisor," in begins.why


def test_a_run_that_is_not_alike_is_said_to_be_none(run: Callable, tmp_path: Path) -> None:
    result = ran(run, tmp_path, OTHERWISE_THE_SECOND_TIME)
    assert result.codes == ["GW502"]
    told = {gap.what: gap.why for gap in result.report.not_examined}
    assert told["where NaN or inf begins"].startswith("a second run of the script did not repeat it")


def test_it_is_not_run_twice_where_that_is_not_wanted(run: Callable, tmp_path: Path) -> None:
    result = ran(run, tmp_path, OTHERWISE_THE_SECOND_TIME + 'print("run")\n', rerun="never")
    assert result.codes == ["GW502"]
    told = {gap.what: gap.why for gap in result.report.not_examined}
    assert told["where NaN or inf begins"] == "a second run of the script was not wanted (--no-rerun)"


def test_nor_for_a_code_that_is_not_selected(run: Callable, tmp_path: Path) -> None:
    result = ran(run, tmp_path, OTHERWISE_THE_SECOND_TIME, select=("GW6",))
    assert (tmp_path / "ran").exists()
    assert result.report.not_examined == ()


@pytest.mark.parametrize(
    ("rerun", "seconds", "again"),
    [("auto", 3.0, True), ("auto", 40.0, False), ("always", 40.0, True), ("never", 3.0, False)],
)
def test_by_itself_only_after_a_short_run(rerun: str, seconds: float, again: bool) -> None:
    assert bool(rerun_seconds(Options(rerun=rerun), seconds)) is again


LOOKS_ITSELF = """
def compute(p, step):
    return torch.exp(p * step * 60).mean()

def train():
    for step in range(12):
        loss = compute(model(x), step)
        if not torch.isfinite(loss):
            raise ValueError("the loss is NaN or infinite")
        loss.backward()

train()
"""


def test_a_script_that_looks_for_itself_and_ends_is_run_again_as_well(run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(START + LOOKS_ITSELF)
    result = run(script, cwd=tmp_path)
    begins = next(finding for finding in result.report.findings if finding.code == "GW511")
    at = begins.location
    assert (at.line, at.column) == column(START + LOOKS_ITSELF, "torch.exp(p * step * 60)")
    assert begins.message == "inf begins in `torch.exp(p * step * 60)`: the exponential overflows"
    assert begins.why.startswith("The loss was 1 at step 0")


def test_the_command_line_and_the_settings_say_whether_it_is_run_twice(tmp_path: Path) -> None:
    from gradwright.doctor.commands.diagnose import diagnose
    from gradwright.doctor.settings import Settings, load
    from gradwright.errors import UsageError

    def asked(*words: str) -> str:
        given = diagnose.make_context("diagnose", [*words, "train.py", "--rerun"]).params
        return Settings().overridden_by({"rerun": given["rerun"]}).options("train.py", False, ()).rerun

    assert [asked(), asked("--rerun"), asked("--no-rerun")] == ["auto", "always", "never"]
    table = tmp_path / "pyproject.toml"
    table.write_text('[tool.gradwright]\nrerun = "never"\n')
    assert load(tmp_path).rerun == "never"
    table.write_text('[tool.gradwright]\nrerun = "sometimes"\n')
    with pytest.raises(UsageError, match="rerun can be always, auto, never"):
        load(tmp_path)


UNUSED_FOR_A_WHILE = """
table = nn.Embedding(3, 1)
seen = [0, 1, 1, 1, 1, 0]

def train():
    for step, row in enumerate(seen):
        entry = table(torch.tensor([row]))
        loss = (entry - 1) ** 2
        if step == 0:
            loss = loss + (entry - entry.detach()).pow(2).sqrt()
        table.zero_grad()
        loss.sum().backward()
        with torch.no_grad():
            table.weight -= torch.where(table.weight.grad == 0, 0, table.weight.grad)

train()
"""


def test_what_went_wrong_long_before_it_was_noticed_is_found_as_well(run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(START + UNUSED_FOR_A_WHILE)
    result = run(script, cwd=tmp_path)
    fact = next(result.report.of(NonfiniteBegins))
    assert (fact.step, fact.loss_step, fact.cause, fact.phase) == (0, 5, "boundary", "backward")
    assert fact.text == "(entry - entry.detach()).pow(2).sqrt()"


SILENT = """
import torch
torch.manual_seed(0)
table = torch.nn.Embedding(8, 2)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for step in range(12):
    rows = table(torch.tensor([step % 8]))
    gap = rows - rows.detach() if step == 5 else rows
    loss = gap.pow(2).sum().sqrt() if step == 5 else torch.where(rows > 3, rows, rows.pow(2)).nan_to_num().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_weights_that_are_nan_are_looked_into_though_every_loss_is_a_number(run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SILENT)
    result = run(script, cwd=tmp_path, fix_seconds=0.0)
    (weights,) = result.report.of(WeightsNotFinite)
    assert (weights.losses, weights.finite_at, weights.parameters, weights.of) == (8, 4, 1, 1)
    (begins,) = (finding for finding in result.report.findings if finding.code == "GW511")
    assert begins.location.line == SILENT[: SILENT.index("loss = gap")].count("\n") + 1
    assert "sqrt" in begins.message and "GW502" not in result.codes


def test_what_made_it_explode_is_told_first_and_as_an_error(tmp_path: Path, run: Callable) -> None:
    script = tmp_path / "explode.py"
    script.write_text(
        "import torch\nfrom torch import nn\n\ntorch.manual_seed(0)\n"
        "net = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 1))\n"
        "for parameter in net.parameters():\n    nn.init.normal_(parameter, std=1.5)\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "for i in range(20):\n    x = torch.randn(32, 64)\n    loss = nn.functional.mse_loss(net(x), x[:, :1])\n"
        "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
    )
    findings = run(script, rerun="always").report.findings
    assert [(one.code, one.severity) for one in findings] == [("GW631", "error"), ("GW511", "error"), ("GW502", "info")]
    assert "follows from GW631" in findings[1].hints[0]


def test_what_a_selected_finding_says_is_what_it_says_beside_all_others(run: Callable, tmp_path: Path) -> None:
    (told,) = ran(run, tmp_path, MASK_BUG, select=("GW502",)).report.findings
    assert (told.code, told.severity) == ("GW502", "info")  # where it begins is known
